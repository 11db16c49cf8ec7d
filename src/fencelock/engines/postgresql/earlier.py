"""What clients of earlier versions call in tables that a newer client has brought up to date.

They know nothing of those who join a queue without locking the name's row (``tables.py``), and
would empty it under them. So their functions are made to call ours, where they are there at all:
whoever shares the tables follows one protocol.
"""

from __future__ import annotations

_ACQUIRE = """
    CREATE OR REPLACE FUNCTION {t}_v{n}_acquire(
      p_name text, p_owner text, p_ttl double precision, p_meta text, p_queue boolean,
      p_inbox text, p_alone boolean,
      OUT r_fence bigint, OUT r_remaining double precision, OUT r_place bigint, OUT r_holder text
    ) AS $$
      SELECT * FROM {f}_acquire(p_name, p_owner, p_ttl, p_meta, p_queue, p_inbox, p_alone)
    $$ LANGUAGE sql;"""

_LEAVE = """
    CREATE OR REPLACE FUNCTION {t}_v{n}_leave(
      {parameters}, OUT r_held boolean, OUT r_queued boolean
    ) AS $$
      SELECT answer % 2 = 1, answer >= 2 FROM {f}_leave(p_name, p_owner, {alone}) answer
    $$ LANGUAGE sql;"""

_OTHERS = """
    CREATE OR REPLACE FUNCTION {t}_v{n}_revoke(p_name text, p_reason text) RETURNS boolean AS $$
      SELECT {f}_revoke(p_name, p_reason)
    $$ LANGUAGE sql;
    CREATE OR REPLACE FUNCTION {t}_v{n}_settle(p_inbox text)
    RETURNS TABLE (r_owner text, r_waiting bigint, r_next double precision) AS $$
      SELECT * FROM {f}_settle(p_inbox)
    $$ LANGUAGE sql;"""

# The third keeps to the protocol, but could pass over a waiter that was just joining anew.
_HAND_ON = """
  IF to_regproc('{t}_v3_hand_on') IS NOT NULL THEN
    CREATE OR REPLACE FUNCTION {t}_v3_hand_on(p_name text) RETURNS {t}_locks AS $$
      SELECT {f}_hand_on(p_name)
    $$ LANGUAGE sql;
  END IF;"""

_VERSIONS = (
    ("1", "p_name text, p_owner text", "false"),
    ("2", "p_name text, p_owner text, p_alone boolean", "p_alone"),
)


def earlier() -> str:
    """The statements that do so, with ``{t}`` and ``{f}`` to be filled in; harmless if repeated."""
    return (
        "\nDO $do$\nBEGIN"
        + "".join(map(_replacing, *zip(*_VERSIONS, strict=True)))
        + _HAND_ON
        + "\nEND $do$;\n"
    )


def _replacing(number: str, parameters: str, alone: str) -> str:
    text = f"""
  IF to_regproc('{{t}}_v{number}_leave') IS NOT NULL THEN{_ACQUIRE}{_LEAVE}{_OTHERS}
  END IF;"""
    return text.replace("{n}", number).replace("{parameters}", parameters).replace("{alone}", alone)
