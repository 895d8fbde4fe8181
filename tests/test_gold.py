import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import GOLD, NAMES


def test_the_gold_file_covers_every_named_activation():
    import neft

    assert {name.partition("(")[0] for name in NAMES} == set(neft.activation_names())


@pytest.mark.slow
def test_the_gold_file_is_what_its_script_makes(tmp_path):
    script = Path(__file__).parents[1] / "tools" / "make_gold.py"
    again = tmp_path / "gold.json"
    subprocess.run([sys.executable, str(script), "--out", str(again)], check=True, capture_output=True)
    assert json.loads(again.read_text()) == json.loads(GOLD.read_text())
