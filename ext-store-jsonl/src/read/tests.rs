//! A check passes over records that are sound; it must say the same as one that
//! looks at every record.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use haft_api::{Durability, NewRecord, NewThread, ThreadStore as _};

use super::*;
use crate::disk::SystemFiles;
use crate::frame::{encode, encode_with_blobs, push_seal};
use crate::log_file::LOG_FILE;
use crate::{DurabilityPolicy, JsonlConfig, JsonlStore};

/// Numbers that look like chance and are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// A thread of some records, and its log.
fn thread(home: &Path, id: &ThreadId) -> Vec<u8> {
    let config = JsonlConfig::default().durability(DurabilityPolicy::Os);
    let store = JsonlStore::open(home, config).unwrap();
    let mut writer = block_on(store.create(NewThread::new(id.clone()))).unwrap();
    for number in 0..30 {
        let kind = if number % 5 == 4 {
            "turn_ended"
        } else {
            "item"
        };
        let data = format!("the {number}th, with [brackets] and {{braces}}, ä");
        let record = NewRecord::new(kind, &data).unwrap();
        block_on(writer.append(vec![record], Durability::Buffered)).unwrap();
    }
    block_on(writer.close()).unwrap();
    let (layout, _) = Layout::open(home, Arc::new(SystemFiles)).unwrap();
    fs::read(layout.thread_path(id).join(LOG_FILE)).unwrap()
}

/// A log that something happened to.
fn mutated(log: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = log
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    for _ in 0..=chance.below(3) {
        // The header stays: without it there is no log.
        let at = 1 + chance.below(lines.len() - 1);
        let (seq, time) = (at as u64, 1_760_000_000_123);
        let mut line = Vec::new();
        match chance.below(14) {
            0 => {
                let byte = chance.below(lines[at].len());
                lines[at][byte] ^= 1 << chance.below(8);
            }
            1 => drop(lines.remove(at)),
            2 => lines.insert(at, lines[at].clone()),
            3 => {
                let other = 1 + chance.below(lines.len() - 1);
                lines.swap(at, other);
            }
            4 => {
                let len = chance.below(lines[at].len());
                lines[at].truncate(len);
            }
            5 => lines.insert(at, vec![0; 1 + chance.below(300)]),
            6 => lines.insert(at, b"\n".to_vec()),
            7 => {
                encode(&mut line, seq, time, "item", "\"another of this number\"");
                lines.insert(at, line);
            }
            8 => {
                let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
                encode(&mut line, seq, time, "item", &deep);
                lines[at] = line;
            }
            9 => {
                let hash = format!("[\"{}\"]", "0".repeat(64));
                encode_with_blobs(&mut line, seq, time, "item", &hash, &[(1, 67)]);
                lines[at] = line;
            }
            10 => {
                encode(&mut line, seq, 7, "item", "{}");
                lines[at] = line;
            }
            11 => {
                line = format!("{{\"s\":{seq},\"t\":{time},\"k\":\"item\",\"d\":\"").into_bytes();
                line.extend_from_slice(b"\xff\"");
                push_seal(&mut line, 0);
                lines[at] = line;
            }
            // More than a reader has at hand at once.
            12 => {
                let many = format!("[{}\"ä\"]", "[],".repeat(30_000));
                encode(&mut line, seq, time, "item", &many);
                lines[at] = line;
            }
            _ => {
                let text = format!("{{\"s\":{seq},\"t\":{time},\"k\":\"item\",\"d\":1}}\n");
                lines[at] = text.into_bytes();
            }
        }
        if lines.len() < 2 {
            break;
        }
    }
    lines.concat()
}

#[test]
fn to_pass_over_sound_records_changes_nothing_that_is_said() {
    let home = tempfile::tempdir().unwrap();
    let id = ThreadId::new("t").unwrap();
    let log = thread(home.path(), &id);
    let (layout, _) = Layout::open(home.path(), Arc::new(SystemFiles)).unwrap();
    let path = layout.thread_path(&id).join(LOG_FILE);
    let said = |diagnostics: Result<Vec<Diagnostic>>| match diagnostics {
        Ok(diagnostics) => format!("{diagnostics:#?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(said(check(&layout, &id)), "[]");
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let mut amiss = 0;
    for round in 0..600 {
        let bytes = mutated(&log, &mut chance);
        fs::write(&path, &bytes).unwrap();
        let quick = said(check(&layout, &id));
        let thorough = said(check_records(&layout, &id, Shown::All));
        assert_eq!(
            quick,
            thorough,
            "round {round}: {}",
            String::from_utf8_lossy(&bytes)
        );
        amiss += usize::from(quick != "[]");
    }
    assert!(amiss > 400, "{amiss}");
}

#[test]
fn damage_where_a_reader_fetches_more_is_told_the_same() {
    let home = tempfile::tempdir().unwrap();
    let id = ThreadId::new("t").unwrap();
    let mut log = thread(home.path(), &id);
    let (layout, _) = Layout::open(home.path(), Arc::new(SystemFiles)).unwrap();
    let path = layout.thread_path(&id).join(LOG_FILE);
    let first = log.split_inclusive(|byte| *byte == b'\n').count() as u64;
    for seq in first..first + 1500 {
        let len = match seq % 500 {
            // Longer than what is fetched at once.
            499 => 150_000,
            other => 40 + other as usize,
        };
        let data = format!("\"{}\"", "x".repeat(len));
        encode(&mut log, seq, 1_760_000_000_123, "item", &data);
    }
    let compare = |what: &str, bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let quick = check(&layout, &id).unwrap();
        let thorough = check_records(&layout, &id, Shown::All).unwrap();
        assert_eq!(format!("{quick:#?}"), format!("{thorough:#?}"), "{what}");
        quick.is_empty()
    };
    assert!(compare("nothing happened", &log));
    // A reader fetches 16 KiB first, then 32 KiB, then 64 KiB at a time; the last of
    // these places are in a record that is longer than that.
    let borders = [16, 48, 112, 176, 240, 304].map(|kib| kib * 1024);
    for at in borders
        .into_iter()
        .flat_map(|border| [border - 1, border, border + 1])
    {
        let mut flipped = log.clone();
        flipped[at] ^= 1;
        assert!(!compare(&format!("a bit at {at}"), &flipped));
        let mut zeros = log.clone();
        zeros[at - 300..at + 300].fill(0);
        assert!(!compare(&format!("zeros around {at}"), &zeros));
        let gone = [&log[..at], &log[at + 700..]].concat();
        assert!(!compare(&format!("bytes gone at {at}"), &gone));
        let put = [&log[..at], b"\n", &log[at..]].concat();
        // Between two lines these are nothing amiss.
        compare(&format!("a line break at {at}"), &put);
        compare(&format!("the end at {at}"), &log[..at]);
    }
    let mut several = log.clone();
    for at in borders {
        several[at] ^= 1;
    }
    assert!(!compare("bits at all borders", &several));
    assert!(!compare("no last line break", &log[..log.len() - 1]));
}
