//! One target for all readers: none ever panics, and totals of line formats do not depend on how lines were
//! written.
//!
//! `CTXSIM_FORMAT` names the format that inputs are read as (see `ctxsim formats`); without it, the first byte
//! of an input chooses one. Each format has its own corpus:
//!
//! ```sh
//! CTXSIM_FORMAT=pi cargo +nightly fuzz run -s none reader fuzz/corpus/pi fixtures/ingest
//! ```

#![no_main]

mod lines;

use std::path::Path;
use std::sync::LazyLock;

use ctxsim::ingest::{self, FORMATS, ReadOptions, Recording, Totals, input};
use libfuzzer_sys::fuzz_target;

/// Format that all inputs are read as.
static FORMAT: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("CTXSIM_FORMAT").ok());

/// Totals of all sessions of a recording, read as `format` or as what it looks like.
fn totals(bytes: &[u8], format: Option<&str>) -> Vec<Totals> {
    let options = ReadOptions { format: format.map(str::to_owned) };
    // Packed inputs are what their magic bytes say; bombs are the reader's to bound, not the fuzzer's.
    let is_archive = bytes.starts_with(b"PK\x03\x04");
    let read = match input::unpack(bytes) {
        Ok(unpacked) if is_archive => ingest::read(unpacked, Path::new("fuzz"), &options),
        _ => ingest::read(bytes, Path::new("fuzz"), &options),
    };
    let of = |recording| {
        if let Recording::Transcript(transcript) = recording { Some(transcript.totals()) } else { None }
    };
    read.into_iter().flatten().filter_map(of).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (name, bytes) = match &*FORMAT {
        Some(name) => (name.as_str(), bytes),
        None => (FORMATS[usize::from(*first) % FORMATS.len()].name, rest),
    };
    totals(bytes, Some(name));
    totals(bytes, None);
    if let Some((_, make)) = lines::MAKERS.iter().find(|(format, _)| *format == name) {
        let (plain, mixed) = make(&mut lines::Draw::new(bytes));
        assert_eq!(
            totals(plain.as_bytes(), Some(name)),
            totals(mixed.as_bytes(), Some(name)),
            "{plain}\n---\n{mixed}"
        );
    }
});
