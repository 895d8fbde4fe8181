import pytest

from neft import report


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The quick page of the default network on the bundled data: what was written, and its file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    train, test = report.examples(full=False)
    net = None
    return report.write(path, net, train, test, quick=True, seed=1), path
