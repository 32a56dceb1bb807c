#!/usr/bin/env python3
"""Repack the omegaconf 2.0.6 wheel with a PyYAML specifier that pip >= 24.1 accepts.

    pip download --no-deps omegaconf==2.0.6        # with a pip below 24.1
    python scripts/repack_omegaconf.py omegaconf-2.0.6-py3-none-any.whl requirements/wheels

The result, omegaconf 2.0.6.post1, differs from 2.0.6 in its METADATA (version and the PyYAML
specifier) and in nothing else; the same input gives the same bytes.
"""

import argparse
import base64
import hashlib
import pathlib
import zipfile

OLD, NEW = "2.0.6", "2.0.6.post1"


def repack(source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Write the mended wheel into ``folder`` and return its path."""
    old_info, new_info = (f"omegaconf-{v}.dist-info" for v in (OLD, NEW))
    target = folder / f"omegaconf-{NEW}-py3-none-any.whl"
    record = []
    with (
        zipfile.ZipFile(source) as wheel,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as mended,
    ):

        def add(name: str, data: bytes) -> None:
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # fixed: same input, same bytes
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            mended.writestr(info, data)

        for entry in wheel.infolist():
            if entry.is_dir() or entry.filename.endswith("/RECORD"):
                continue
            data = wheel.read(entry)
            name = entry.filename.replace(old_info, new_info)
            if name.endswith("/METADATA"):
                text = data.decode("utf-8")
                if f"\nVersion: {OLD}\n" not in text or "PyYAML (>=5.1.*)" not in text:
                    raise ValueError(f"{source}: not the wheel of omegaconf {OLD}")
                text = text.replace(f"\nVersion: {OLD}\n", f"\nVersion: {NEW}\n")
                text = text.replace("PyYAML (>=5.1.*)", "PyYAML (>=5.1)")
                data = text.encode("utf-8")
            add(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        record_name = f"{new_info}/RECORD"
        add(record_name, ("\n".join(record + [f"{record_name},,"]) + "\n").encode())
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("wheel", type=pathlib.Path, help="omegaconf-2.0.6-py3-none-any.whl")
    parser.add_argument("folder", type=pathlib.Path, help="where the mended wheel goes")
    arguments = parser.parse_args()
    repack(arguments.wheel, arguments.folder)
