import pytest

from nmtkit.errors import UserError, unknown


def test_a_near_name_is_offered():
    error = unknown("metric", "belu", ["bleu", "chrf", "ter"])
    assert isinstance(error, UserError)
    assert str(error) == "unknown metric 'belu': did you mean 'bleu'? (one of: bleu, chrf, ter)"


@pytest.mark.parametrize("name", ["", "xyzzy", "\n"])
def test_a_far_name_gets_the_list_on_one_line(name):
    message = str(unknown("metric", name, iter(["bleu", "ter"])))
    assert message == f"unknown metric {name!r}: (one of: bleu, ter)"
    assert "\n" not in message


def test_nothing_known():
    assert str(unknown("key", "a", [])) == "unknown key 'a': (there are none)"
