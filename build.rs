//! Lists the presets, so that adding one is adding its file: `src/policy/preset.rs` includes what is written here. And
//! collects what modules say of their divergence from the real API: `src/report/html/divergence.rs` shows it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
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
    fs::write(Path::new(&out).join("presets.rs"), list)?;
    fs::write(Path::new(&out).join("divergence.rs"), divergence()?)
}

/// Module and text of each section, by module.
fn divergence() -> io::Result<String> {
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    rust_files(Path::new("src"), &mut files)?;
    files.sort_unstable();
    let mut list = String::from("[\n");
    for file in files {
        let text = section(&fs::read_to_string(&file)?);
        if !text.is_empty() {
            let name = file.strip_prefix("src").unwrap_or(&file).with_extension("");
            let name = name.to_string_lossy().replace('\\', "/");
            let _ = writeln!(list, "    ({:?}, {text:?}),", name.trim_end_matches("/mod"));
        }
    }
    list.push_str("]\n");
    Ok(list)
}

fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    Ok(())
}

/// The section of a module's documentation, up to the next one.
fn section(source: &str) -> String {
    let docs = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim_end);
    let after = docs.skip_while(|line| line.trim() != "# Divergence from the real API").skip(1);
    let lines: Vec<&str> = after.take_while(|line| !line.starts_with(" # ")).collect();
    lines.join("\n").trim().to_owned()
}
