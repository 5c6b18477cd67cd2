//! What the simulator does differently from the real thing, in the words of the modules that do it.
//!
//! `build.rs` collects the last section of every module's documentation, so that a page cannot say less than the code.

use std::fmt::Write as _;

use super::escape::{escape, markdown};

/// Module and text, by module.
const NOTES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/divergence.rs"));

/// Parts of the program in the order in which a reader asks for them: folder, title.
const ROOMS: [(&str, &str); 9] = [
    ("sim", "The replay"),
    ("provider", "The provider: cache, binding, window, prices"),
    ("policy", "Strategies"),
    ("session", "Sizes and hashes of a session"),
    ("tokens", "Token counts"),
    ("generate", "Synthetic sessions"),
    ("validate", "Validation"),
    ("tune", "Tuning"),
    ("ingest", "Reading recordings"),
];

/// One group of folded notes for each part of the program.
pub(super) fn html() -> String {
    let mut out = String::new();
    for (room, title) in ROOMS {
        let notes: Vec<_> =
            NOTES.iter().filter(|(module, _)| module.split('/').next() == Some(room)).collect();
        if notes.is_empty() {
            continue;
        }
        let _ = write!(out, "<details><summary>{}</summary>", escape(title));
        for (module, text) in notes {
            let _ = write!(out, "<h4><code>{}</code></h4>{}", escape(module), markdown(text));
        }
        out.push_str("</details>\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_modelled_part_is_there() {
        for module in ["provider/cache", "provider/binding", "sim/run", "session/compile", "tokens"] {
            let note = NOTES.iter().find(|(name, _)| *name == module);
            assert!(note.is_some_and(|(_, text)| text.len() > 40), "{module}");
        }
        let page = html();
        assert!(page.contains("provider/cache") && !page.contains("//!"), "{page}");
    }
}
