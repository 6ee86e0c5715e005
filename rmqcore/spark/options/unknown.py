"""Error message for an unknown option."""

from __future__ import annotations

from collections.abc import Mapping

from rmqcore.errors.near_names import nearest_names

_SHOWN = 3
_LEAST_LIKENESS = 0.4


def unknown_option(said: str, name: str, known: Mapping[str, str], page: str) -> str:
    """Return the message for an unknown option: the nearest names, and where all of them are listed.

    Parameters
    ----------
    said : str
        Start of the message, ``there is no option topik``.
    name : str
        As the user wrote it.
    known : mapping of str to str
        Names in lower case, and how each option is spelled.
    page : str
        The part of the documentation that lists the options.
    """
    plain = "".join(one for one in name.lower() if one.isalpha() or one == ".")
    near = nearest_names(plain, known, most=_SHOWN, likeness=_LEAST_LIKENESS)
    names = list(dict.fromkeys(known[one] for one in near))
    meant = f"did you mean {' or '.join(names)}? " if names else ""
    return f"{said}; {meant}{page} lists all options"
