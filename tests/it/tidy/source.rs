//! Rust files as the house rules see them: code without comments, texts and tests.

use std::path::Path;

/// A file of the project.
pub struct Source {
    /// Path from the root, with `/`.
    pub path: String,
    /// As it is on disk.
    pub text: String,
    /// The same lines with comments and the insides of texts blanked.
    pub code: String,
    /// Whether each line (from 0) belongs to a `#[cfg(test)]` item.
    pub is_test: Vec<bool>,
}

impl Source {
    pub fn of(path: String, text: String) -> Source {
        let code = blank(&text);
        let is_test = test_lines(&code);
        Source { path, text, code, is_test }
    }

    /// Lines of code outside tests, with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.code.lines().enumerate();
        numbered.filter(|(i, _)| !self.is_test[*i]).map(|(i, line)| (i + 1, line))
    }

    /// Code outside tests, in one piece.
    pub fn production(&self) -> String {
        self.lines().map(|(_, line)| format!("{line}\n")).collect()
    }
}

/// Root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` (from the root) with one of the extensions, in the order of their paths.
pub fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root().join(folder), extensions, &mut found);
    found.sort();
    found
}

fn walk(folder: &Path, extensions: &[&str], found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, extensions, found);
        } else if path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
            found.push((relative(&path), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}

/// All Rust files of `src`.
pub fn library() -> Vec<Source> {
    files("src", &["rs"]).into_iter().map(|(path, text)| Source::of(path, text)).collect()
}

/// Comments and the insides of texts and characters become blanks; lines stay where they are.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// End of the comment, text or character that starts at `at`; `at` if none does.
fn skipped(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    let starts = |prefix: &str| prefix.chars().enumerate().all(|(i, c)| rest.get(i) == Some(&c));
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if starts("//") {
        return at + rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
    }
    if rest[0] == '"' {
        return closing(chars, at + 1, '"');
    }
    if rest[0] == 'r' && !in_word {
        let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
        if rest.get(1 + hashes) == Some(&'"') {
            let end: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            let body: String = rest[2 + hashes..].iter().collect();
            let length = body.find(&end).map_or(body.chars().count(), |i| body[..i].chars().count());
            return at + 2 + hashes + length + end.len();
        }
    }
    // A character, not a lifetime: 'x' or an escape.
    if rest[0] == '\'' && (rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')) {
        return closing(chars, at + 1, '\'');
    }
    at
}

/// Just past the next `quote` that no backslash precedes.
fn closing(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// Marks the items under `#[cfg(test)]`, to their closing brace or semicolon.
fn test_lines(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut is_test = vec![false; lines.len()];
    for start in (0..lines.len()).filter(|i| lines[*i].trim_start().starts_with("#[cfg(test)]")) {
        is_test[start..=item_end(&lines, start)].fill(true);
    }
    is_test
}

/// Last line of the item that starts at `start`.
pub fn item_end(lines: &[&str], start: usize) -> usize {
    let mut depth = 0_i32;
    for (i, line) in lines.iter().enumerate().skip(start) {
        let opened = line.contains('{');
        depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
        if depth <= 0 && (opened || depth < 0 || line.contains('}') || line.trim_end().ends_with(';')) {
            return i;
        }
    }
    lines.len() - 1
}

/// Functions with their number of lines, by brace counting: (line from 1, name, lines).
pub fn functions(code: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|w| *w == "fn") else { continue };
        let Some(name) = words.get(at + 1) else { continue };
        let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        found.push((i + 1, name, item_end(&lines, i) - i + 1));
    }
    found
}

#[test]
fn code_is_told_from_texts_and_tests() {
    let text = "fn a<'t>() -> char { // no } here\n    let s = r#\"a \" } b\"#;\n    '}'\n}\n\
                #[cfg(test)]\nmod tests {\n    fn b() { x(\"}\") }\n}\nfn c() {}\n";
    let source = Source::of("x.rs".to_owned(), text.to_owned());
    assert_eq!(functions(&source.production()), [(1, "a".to_owned(), 4), (5, "c".to_owned(), 1)]);
    assert!(!source.code.contains("here") && source.code.contains("<'t>"));
    assert_eq!(source.is_test, [false, false, false, false, true, true, true, true, false]);
}
