"""RECORD as it is written and read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from composer.wheel.record import Claim, Row, format_record, hash_text, parse_record

HASH = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"  # of nothing

paths = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\"), min_size=1
).filter(lambda path: not path.startswith("/"))


@given(
    st.dictionaries(
        paths,
        st.tuples(
            st.binary(min_size=32, max_size=32),
            st.none() | st.integers(min_value=0, max_value=2**60),
        ),
    )
)
def test_record_says_what_was_written(claims: dict[str, tuple[bytes, int | None]]) -> None:
    written = [
        Row(path, hash_text("sha256", digest), "" if size is None else str(size))
        for path, (digest, size) in claims.items()
    ]
    found, faults = parse_record(format_record(written))
    assert faults == []
    assert found == {path: Claim("sha256", *claim) for path, claim in claims.items()}
    assert list(found) == sorted(claims)


def test_record_quotes_what_csv_has_to_quote() -> None:
    data = format_record([Row('b "c".py', HASH, "0"), Row("a,b.py", HASH, "0"), Row("RECORD")])
    assert data.decode() == (f'RECORD,,\n"a,b.py",{HASH},0\n"b ""c"".py",{HASH},0\n')


def test_record_may_end_its_lines_as_windows_does() -> None:
    found, faults = parse_record(f"a,{HASH},0\r\nRECORD,,\r\n".encode())
    assert (list(found), faults) == (["a", "RECORD"], [])
