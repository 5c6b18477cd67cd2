//! Lists the presets, so that adding one is adding its file: `src/policy/preset.rs` includes what is written here.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

const FOLDER: &str = "src/policy/presets";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut names = Vec::new();
    for entry in fs::read_dir(FOLDER)? {
        let file = entry?.file_name();
        names.extend(file.to_str().and_then(|name| name.strip_suffix(".toml")).map(str::to_owned));
    }
    // By name and not by file: `arcturn` stands before `arcturn-0.6`.
    names.sort_unstable();
    let mut list = String::from("[\n");
    for name in names {
        // Writing to a string cannot fail.
        let _ = writeln!(
            list,
            "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{FOLDER}/{name}.toml\"))),"
        );
    }
    list.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("presets.rs"), list)
}
