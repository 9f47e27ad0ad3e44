CREATE TABLE {s}.threads (
    -- Never used again, so that a writer of a deleted thread can't reach
    -- another one of the same id.
    no              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              text COLLATE "C" NOT NULL UNIQUE,
    -- A parent with forks can't be deleted.
    parent          bigint REFERENCES {s}.threads (no),
    parent_seq      bigint,
    first_seq       bigint NOT NULL,
    next_seq        bigint NOT NULL,
    created_ms      bigint NOT NULL,
    updated_ms      bigint NOT NULL,
    title           text,
    archived        boolean NOT NULL DEFAULT false,
    -- A JSON object, as text: its values are kept byte for byte.
    extra           text NOT NULL DEFAULT '{}',
    -- The writer's lease. An append names the epoch and is refused if it is no
    -- longer this one.
    epoch           bigint NOT NULL DEFAULT 0,
    holder          text,
    token           text,
    holder_since_ms bigint,
    lease_until_ms  bigint,
    CHECK ((parent IS NULL) = (parent_seq IS NULL))
) WITH (fillfactor = 80);

CREATE INDEX threads_by_change ON {s}.threads (updated_ms DESC, id DESC);
CREATE INDEX threads_by_parent ON {s}.threads (parent) WHERE parent IS NOT NULL;

CREATE TABLE {s}.records (
    thread  bigint NOT NULL,
    seq     bigint NOT NULL,
    time_ms bigint NOT NULL,
    kind    text NOT NULL,
    -- JSON as text, byte for byte.
    data    text NOT NULL,
    -- CRC-32C of number, kind and data; null in a row mended by hand.
    crc     integer,
    PRIMARY KEY (thread, seq)
);
