import json

import pytest
from helpers import KINDS, NAMES, gold


def test_the_gold_file_covers_every_named_activation():
    import neft

    assert {name.partition("(")[0] for name in NAMES} == set(neft.activation_names())


# All sixteen take minutes: `make gold` makes the file again as a whole, and version control shows what changed.
@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_the_gold_file_is_what_its_script_makes(name):
    import make_gold

    for section in make_gold.SECTIONS:
        made = getattr(make_gold, f"{section}_of")(name)
        assert json.loads(json.dumps(made)) == gold()[section][name], section
