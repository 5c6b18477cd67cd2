//! Text into HTML.

use std::borrow::Cow;

/// `text` as it is shown, whatever is in it.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A name that breaks between its parameters where it must, and before a value at the worst.
pub(super) fn breakable(name: &str) -> String {
    [':', ',', '='].iter().fold(escape(name).into_owned(), |text, c| text.replace(*c, &format!("{c}<wbr>")))
}

/// JSON inside a `script` element, which ends at the first `</script`.
pub(super) fn script_json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Lines of Markdown as they stand in this project's documentation: paragraphs, lists, code, emphasis; links become
/// their text.
pub(super) fn markdown(text: &str) -> String {
    let mut out = String::new();
    let mut block = String::new();
    let mut in_list = false;
    let flush = |block: &mut String, out: &mut String, in_list: &mut bool| {
        if block.is_empty() {
            return;
        }
        let (item, words) = match block.strip_prefix("* ").or_else(|| block.strip_prefix("- ")) {
            Some(words) => (true, words),
            None => (false, block.as_str()),
        };
        if item != *in_list {
            out.push_str(if item { "<ul>" } else { "</ul>" });
            *in_list = item;
        }
        let tag = if item { "li" } else { "p" };
        out.push_str(&format!("<{tag}>{}</{tag}>", inline(words)));
        block.clear();
    };
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("* ") || line.starts_with("- ") {
            flush(&mut block, &mut out, &mut in_list);
        }
        if !line.is_empty() {
            if !block.is_empty() {
                block.push(' ');
            }
            block.push_str(line);
        }
    }
    flush(&mut block, &mut out, &mut in_list);
    if in_list {
        out.push_str("</ul>");
    }
    out
}

fn inline(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split('`').enumerate() {
        match i % 2 {
            0 => {
                let plain = part.replace("**", "").replace(['[', ']'], "");
                out.push_str(&escape(&plain));
            }
            _ => out.push_str(&format!("<code>{}</code>", escape(part))),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_becomes_markup() {
        assert_eq!(
            escape("<img src=x onerror='a()'> & \"b\""),
            "&lt;img src=x onerror=&#39;a()&#39;&gt; &amp; &quot;b&quot;"
        );
        assert_eq!(breakable("a:b=1,<c>=2"), "a:<wbr>b=<wbr>1,<wbr>&lt;c&gt;=<wbr>2");
        assert_eq!(script_json("{\"a\":\"</script><b>\"}"), "{\"a\":\"\\u003c/script>\\u003cb>\"}");
    }

    #[test]
    fn documentation_becomes_paragraphs_and_lists() {
        let text = "All of `a<b` and\n[`Cause`] is.\n\n* One\n  goes on.\n* Two.\n\nEnd.";
        assert_eq!(
            markdown(text),
            "<p>All of <code>a&lt;b</code> and <code>Cause</code> is.</p><ul><li>One goes on.</li>\
             <li>Two.</li></ul><p>End.</p>"
        );
    }
}
