import dataclasses
import inspect

from neft.cli._flat import flat


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2


def test_fields_take_the_place_of_the_bundle():
    def command(point: Point, scale: int = 3) -> None:
        seen.append((point, scale))

    seen = []
    run = flat(command)
    assert list(inspect.signature(run).parameters) == ["x", "y", "scale"]
    run(x=1, scale=5)
    assert seen == [(Point(1, 2), 5)]


def test_the_help_text_stays():
    def command(point: Point) -> None:
        """Say so."""

    assert flat(command).__doc__ == "Say so."
