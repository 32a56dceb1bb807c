"""Text of files and of errors in messages."""

from fairseq_specdec.io.printable import flat_message, printable


def test_a_message_is_one_line_of_the_length_asked():
    error = ValueError("  no model:\n\tlayer 1\r\n  lacks   a weight ")
    assert flat_message(error) == "no model: layer 1 lacks a weight"
    assert flat_message(error, 10) == "no model: "
    assert flat_message(ValueError()) == ""


def test_control_characters_are_escapes():
    assert printable("a\x1b[2Jä\n") == "a\\x1b[2Jä\\n"
