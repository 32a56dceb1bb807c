"""How commands present errors and interruptions, in this project's programs and fairseq's."""
