//! Physical lines → JSON objects, with everything that goes wrong in between.

use std::io::{self, BufRead, ErrorKind};

use serde_json::Value;

use crate::lines::{self, Found, MAX_LINE_BYTES};
use crate::transcript::Notice;

/// Unreadable lines of a file that are named one by one.
const NAMED_LINES: usize = 100;

/// Reads `source` line by line. `object` gets the line number and a text that begins with an object, and
/// gives the length of that object, or `None` if it cannot be parsed. What is no object becomes a notice.
/// Only one line is held at a time.
///
/// # Errors
///
/// Those of `source`, except a compressed stream that ends early: that is a notice.
pub fn for_each(
    source: &mut dyn BufRead,
    notices: &mut Vec<Notice>,
    mut object: impl FnMut(u64, &str, &mut Vec<Notice>) -> Option<usize>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    let (mut number, mut unreadable) = (0, Unreadable::default());
    loop {
        let result = lines::read(source, &mut buffer, MAX_LINE_BYTES);
        number += 1;
        match result {
            Ok(Found::End) => break,
            Ok(Found::Line) => {}
            Ok(Found::TooLong) => {
                unreadable.note(number, lines::too_long(), notices);
                continue;
            }
            Err(e) if number > 1 && matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData) => {
                notices.push(Notice { line: number, reason: format!("the stream ends early: {e}") });
                break;
            }
            Err(e) => return Err(e),
        }
        let terminated = buffer.last() == Some(&b'\n');
        // Files put together from others have the mark in their middle too.
        let bytes = buffer.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&buffer);
        let text = lines::text(bytes);
        if let Err(reason) = objects(&text, |text| object(number, text, notices)) {
            let reason = if terminated { reason } else { format!("the last line is cut off: {reason}") };
            unreadable.note(number, reason, notices);
        }
    }
    unreadable.finish(notices);
    Ok(())
}

/// The same for readers that take each object as a whole.
///
/// # Errors
///
/// As [`for_each`].
pub fn for_each_value(
    source: &mut dyn BufRead,
    notices: &mut Vec<Notice>,
    mut object: impl FnMut(u64, &Value, &mut Vec<Notice>),
) -> io::Result<()> {
    for_each(source, notices, |number, text, notices| {
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        object(number, &stream.next()?.ok()?, notices);
        Some(stream.byte_offset())
    })
}

/// Lines that could not be read: the first ones are named, the others counted, so that a file of
/// nothing else does not fill the memory.
#[derive(Default)]
struct Unreadable {
    named: usize,
    others: u64,
    first_other: u64,
}

impl Unreadable {
    fn note(&mut self, line: u64, reason: String, notices: &mut Vec<Notice>) {
        if self.named < NAMED_LINES {
            self.named += 1;
            notices.push(Notice { line, reason });
            return;
        }
        if self.others == 0 {
            self.first_other = line;
        }
        self.others += 1;
    }

    fn finish(self, notices: &mut Vec<Notice>) {
        if self.others > 0 {
            let reason = format!("from here on {} more lines could not be read", self.others);
            notices.push(Notice { line: self.first_other, reason });
        }
    }
}

/// Hands every object of one line to `object`; objects may be glued together.
fn objects(text: &str, mut object: impl FnMut(&str) -> Option<usize>) -> Result<(), String> {
    let done = match parse(text, &mut object) {
        Ok(()) => return Ok(()),
        Err(done) => done,
    };
    let rest = &text[done..];
    if rest.bytes().all(|b| b == 0 || b.is_ascii_whitespace()) {
        return Ok(());
    }
    let repaired = repair(rest);
    let Err(done) = parse(&repaired, &mut object) else { return Ok(()) };
    // Last resort: doubled keys are an error above; here the last one counts, as in other readers.
    let rest = &repaired[done..];
    match serde_json::from_str::<Value>(rest) {
        Ok(value @ Value::Object(_)) => {
            let text = value.to_string();
            object(&text).map(|_| ()).ok_or_else(|| "not readable".to_owned())
        }
        Ok(_) => Err("not a JSON object".to_owned()),
        Err(e) => Err(format!("broken JSON: {e}")),
    }
}

/// Parses objects up to the first that fails, and gives its position.
fn parse(text: &str, object: &mut impl FnMut(&str) -> Option<usize>) -> Result<(), usize> {
    let mut done = 0;
    loop {
        let rest = text[done..].trim_start();
        let start = text.len() - rest.len();
        match rest.as_bytes().first() {
            None => return Ok(()),
            Some(b'{') => {}
            Some(_) => return Err(start),
        }
        done = start + object(rest).ok_or(start)?;
    }
}

/// Mends what JSON does not allow but recordings hold: NUL and other control characters, bare `NaN`
/// and infinities (as strings, so that the count is seen to be none), and halves of surrogate pairs.
pub fn repair(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        let mut len = c.len_utf8();
        match c {
            '\\' if in_string => {
                len = escape_len(rest);
                let lone = is_surrogate(&rest[..len]) && len == 6;
                out.push_str(if lone { "\\ufffd" } else { &rest[..len] });
            }
            '"' => {
                in_string = !in_string;
                out.push('"');
            }
            '\0' => {}
            c if in_string && c.is_control() && c.is_ascii() => out.push(' '),
            'N' | 'I' | '-' if !in_string => {
                match ["NaN", "Infinity", "-Infinity"].iter().find(|w| rest.starts_with(**w)) {
                    Some(word) => {
                        len = word.len();
                        out.extend(["\"", word, "\""]);
                    }
                    None => out.push(c),
                }
            }
            c => out.push(c),
        }
        rest = &rest[len..];
    }
    out
}

/// Length of the escape at the head of `text`; both halves of a surrogate pair are one escape.
fn escape_len(text: &str) -> usize {
    let Some(next) = text[1..].chars().next() else { return 1 };
    if next != 'u' || !text.is_char_boundary(6.min(text.len())) || text.len() < 6 {
        return 1 + next.len_utf8();
    }
    let low = text
        .get(6..12)
        .filter(|second| is_surrogate(second) && matches!(second.as_bytes()[3], b'c'..=b'f' | b'C'..=b'F'));
    let high =
        is_surrogate(&text[..6]) && matches!(text.as_bytes()[3], b'8'..=b'9' | b'a'..=b'b' | b'A'..=b'B');
    if high && low.is_some() { 12 } else { 6 }
}

fn is_surrogate(escape: &str) -> bool {
    matches!(escape.as_bytes(), [b'\\', b'u', b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..])
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Deserializer;

    use super::{NAMED_LINES, for_each, repair};

    /// Of a struct, a doubled key is an error; of a map it is not.
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "type")]
        kind: String,
    }

    /// A line number, and what was on it.
    type Numbered = (u64, String);

    fn read(bytes: &[u8]) -> (Vec<Numbered>, Vec<Numbered>) {
        let (mut kinds, mut notices) = (Vec::new(), Vec::new());
        for_each(&mut &bytes[..], &mut notices, |n, text, _| {
            let mut stream = Deserializer::from_str(text).into_iter::<Line>();
            kinds.push((n, stream.next()?.ok()?.kind));
            Some(stream.byte_offset())
        })
        .unwrap();
        (kinds, notices.into_iter().map(|n| (n.line, n.reason)).collect())
    }

    fn kinds(bytes: &[u8]) -> Vec<(u64, String)> {
        let (kinds, notices) = read(bytes);
        assert_eq!(notices, []);
        kinds
    }

    #[test]
    fn tolerates_what_editors_and_crashes_leave() {
        let one = [(1, "a".to_owned())];
        assert_eq!(kinds(b"\xef\xbb\xbf{\"type\":\"a\"}\r\n"), one, "byte order mark and carriage return");
        assert_eq!(kinds(b"{\"type\":\"a\"}"), one, "no final newline");
        assert_eq!(kinds(b"{\"type\":\"a\"}\0\0\0\n\0\0"), one, "NUL");
        assert_eq!(kinds(b"\0{\"type\":\"a\"}\n"), one, "NUL before");
        assert_eq!(kinds(b"{\"type\":\"\xff\"}\n"), [(1, "\u{fffd}".to_owned())], "invalid UTF-8");
        assert_eq!(kinds(b"{\"type\":\"a\tb\"}\n"), [(1, "a b".to_owned())], "raw control character");
        assert_eq!(kinds(br#"{"type":"\ud83d"}"#), [(1, "\u{fffd}".to_owned())], "half a surrogate pair");
        assert_eq!(kinds(br#"{"type":"a","type":"b"}"#), [(1, "b".to_owned())], "doubled key");
        assert_eq!(kinds(b"\n\n{\"type\":\"a\"}\n"), [(3, "a".to_owned())], "blank lines");
    }

    #[test]
    fn glued_objects_are_all_read() {
        let both = [(1, "a".to_owned()), (1, "b".to_owned())];
        assert_eq!(kinds(b"{\"type\":\"a\"}{\"type\":\"b\"}\n"), both);
        assert_eq!(kinds(b"{\"type\":\"a\"} {\"type\":\"b\",\"uuid\":NaN}\n"), both);
    }

    #[test]
    fn broken_lines_are_named_and_the_rest_is_read() {
        let (kinds, notices) = read(b"{\"type\":\"a\"}\n{\"type\":\n[1]\n{\"type\":\"b\"}{\"type\"");
        assert_eq!(kinds, [(1, "a".to_owned()), (4, "b".to_owned())]);
        assert_eq!(notices.iter().map(|n| n.0).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(notices[0].1.starts_with("broken JSON"), "{notices:?}");
        assert_eq!(notices[1].1, "not a JSON object");
        assert!(notices[2].1.starts_with("the last line is cut off"), "{notices:?}");
    }

    #[test]
    fn bom_on_every_line() {
        let line = b"\xef\xbb\xbf{\"type\":\"a\"}\n";
        let found: Vec<u64> = kinds(&line.repeat(3)).into_iter().map(|(number, _)| number).collect();
        assert_eq!(found, [1, 2, 3]);
    }

    #[test]
    fn many_unreadable_lines_are_counted() {
        let (_, notices) = read(&b"x\n".repeat(1_000));
        assert_eq!(notices.len(), NAMED_LINES + 1);
        assert_eq!(notices[NAMED_LINES], (101, "from here on 900 more lines could not be read".to_owned()));
    }

    #[test]
    fn repair_leaves_good_escapes_alone() {
        for good in [r#"{"a":"\ud83d\ude00 \" \\ \u00e9 -Infinity NaN","b":-1}"#, r#"{"é":"\\u"}"#] {
            assert_eq!(repair(good), good);
        }
        assert_eq!(repair(r#"{"a":[NaN,-Infinity,Infinity]}"#), r#"{"a":["NaN","-Infinity","Infinity"]}"#);
        assert_eq!(repair(r#""\ude00\ud83d\ud83d\ude00""#), r#""\ufffd\ufffd\ud83d\ude00""#);
        assert_eq!(repair("\"\\"), "\"\\");
        assert_eq!(repair("\"\\ué"), "\"\\ué");
    }
}
