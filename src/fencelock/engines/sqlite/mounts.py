"""Which file system a path lies on: on one of the network SQLite cannot lock safely."""

from __future__ import annotations

from ...errors import Misconfigured

# fmt: off
NETWORK_FILE_SYSTEMS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.cephfs",
    "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs",
    "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb2",
    "smb3", "smbfs", "vboxsf", "virtiofs",
}
# fmt: on


def mounts() -> str:
    """What is mounted where, as the kernel tells it; nothing where it does not."""
    try:
        with open("/proc/self/mountinfo") as file:
            return file.read()
    except OSError:
        return ""


def file_system(path: str, mountinfo: str) -> tuple[str, str]:
    """Kind and mount point of a path's file system, going by the text of ``mountinfo``."""
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
    """A path as the kernel writes it: blanks and backslashes are given in octal."""
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
