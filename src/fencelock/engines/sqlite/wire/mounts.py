"""Check a path: SQLite cannot lock safely on a network file system, nor by two paths."""

from __future__ import annotations

import os

from ....errors import Misconfigured

# fmt: off
NETWORK_FILE_SYSTEMS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fakeowner", "fuse.bindfs",
    "fuse.ceph", "fuse.cephfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.grpcfuse", "fuse.osxfs",
    "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs", "fuse.vmhgfs-fuse", "gfs2",
    "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "smb2",
    "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
}
# fmt: on


def mounts() -> str:
    """Read the kernel's ``mountinfo``; an empty text where there is none."""
    try:
        with open("/proc/self/mountinfo") as file:
            return file.read()
    except OSError:
        return ""


def file_system(path: str, mountinfo: str) -> tuple[str, str]:
    """Find the type and mount point of a path's file system in the text of ``mountinfo``."""
    best, kind = "", ""
    for line in mountinfo.split("\n"):  # other line breaks and blanks may be part of a path
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = _unescaped(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind, best


def _unescaped(text: str) -> str:
    """Decode a path as the kernel writes it: blanks and backslashes are given in octal."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def refuse_network(path: str, mountinfo: str) -> None:
    """Raise if the path lies on a network file system."""
    kind, best = file_system(path, mountinfo)
    if kind in NETWORK_FILE_SYSTEMS:
        raise Misconfigured(
            f"{path} lies on a network file system ({kind} at {best}), where SQLite cannot lock "
            "safely: use a local path, or an engine made for many machines"
        )


def refuse_second_path(path: str, mountinfo: str) -> None:
    """Raise if the file can be reached by another path, too: SQLite keeps its log beside the path,
    so clients that come by different paths would not see each other's locks.

    That cannot be seen from both paths: the original of a file that is mounted elsewhere looks like
    any other. A client that opens the mount is refused, and that is enough. So it is with a hard
    link that is made later: a client that opens either name from then on is refused.
    """
    if os.path.realpath(path) != path:
        raise Misconfigured(
            f"{path} has become a link to {os.path.realpath(path)}, whose locks are others: "
            "connect again"
        )
    if file_system(path, mountinfo)[1] == path:
        raise Misconfigured(
            f"{path} is mounted as a single file, and SQLite keeps a log beside it that others who "
            f"use the file would not share: mount its folder, {os.path.dirname(path)}, instead"
        )
    try:
        links = os.stat(path).st_nlink
    except OSError:
        return  # removed just now: the caller finds that out when it opens the file
    if links > 1:
        raise Misconfigured(
            f"{path} has {links} hard links, and SQLite keeps a log beside each name, so users of "
            "one name would not see the locks of another: remove the other names (find -samefile "
            "shows them), or make them symbolic links"
        )
