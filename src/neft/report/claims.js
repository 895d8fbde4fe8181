
// Boxes hide claims by the style sheet alone. This adds a search for words, and counts what is left.
(() => {
  const field = document.getElementById("words"), shown = document.getElementById("shown");
  const claims = [...document.querySelectorAll(".claim")];
  const texts = claims.map(claim => claim.textContent.toLowerCase());
  const update = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    claims.forEach((claim, i) => { claim.hidden = !words.every(word => texts[i].includes(word)); });
    const left = claims.filter(claim => getComputedStyle(claim).display !== "none").length;
    shown.textContent = `${left} of ${claims.length} shown`;
  };
  document.querySelector(".search").hidden = false;
  document.querySelector(".filters").addEventListener("input", update);
  document.querySelector(".filters").addEventListener("submit", event => event.preventDefault());
  update();
})();
