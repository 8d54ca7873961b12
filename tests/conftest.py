import pytest

from erne_server import Server


@pytest.fixture(scope="session")
def mini():
    """One server of the embedded erne-mini, shared by the tests that only ask it questions."""
    with Server() as server:
        yield server
