-- A sequence of fences, and the function that raises it to the clock: one caller at a time, and
-- only if the clock is so far ahead that no fence drawn at this very moment can be drawn again.
CREATE SEQUENCE IF NOT EXISTS {c}_fence AS bigint;
CREATE OR REPLACE FUNCTION {c}_lift() RETURNS void AS $$
BEGIN
  PERFORM pg_advisory_xact_lock({space}, hashtext('{c}_fence'));
  IF {us} > (SELECT last_value FROM {c}_fence) + 1000 THEN
    PERFORM setval('{c}_fence', {us});
  END IF;
END $$ LANGUAGE plpgsql;
