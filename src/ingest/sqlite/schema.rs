//! Tables and the names of their columns, from the statements that made them.

use serde_json::Value;

use super::Row;

/// Columns of the table that lists all others.
pub const OF_SCHEMA: [&str; 5] = ["type", "name", "tbl_name", "rootpage", "sql"];

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: String,
    /// Names in the order of a row's values.
    pub columns: Vec<String>,
    pub first_page: u32,
}

/// What begins a clause that is no column.
const CONSTRAINTS: &[&str] = &["constraint", "primary", "unique", "check", "foreign"];

/// The table that a row of the schema describes; `None` for anything else.
pub fn table(row: &Row) -> Option<Table> {
    let text = |name: &str| row.get(name).and_then(Value::as_str);
    let is_table = text("type") == Some("table");
    let first_page = row.get("rootpage").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let sql = text("sql").filter(|_| is_table)?;
    Some(Table { name: text("name")?.to_owned(), columns: columns(sql), first_page: first_page? })
}

/// Names of the columns that a statement declares.
fn columns(sql: &str) -> Vec<String> {
    let mut clauses = vec![String::new()];
    let mut depth = 0;
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        let end = |mark: &str| rest.find(mark).map_or(rest.len(), |at| at + mark.len());
        match c {
            '-' if rest.starts_with("--") => length = end("\n"),
            '/' if rest.starts_with("/*") => length = end("*/"),
            '\'' | '"' | '`' | '[' => {
                let close = if c == '[' { ']' } else { c };
                length += rest[length..].find(close).map_or(rest.len() - length, |at| at + 1);
                if depth > 0
                    && let Some(clause) = clauses.last_mut()
                {
                    clause.push_str(&rest[..length]);
                }
            }
            '(' => {
                depth += 1;
                if depth > 1
                    && let Some(clause) = clauses.last_mut()
                {
                    clause.push(' ');
                }
            }
            ')' if depth == 1 => break,
            ')' => depth -= 1,
            ',' if depth == 1 => clauses.push(String::new()),
            c if depth == 1
                && let Some(clause) = clauses.last_mut() =>
            {
                clause.push(c)
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    clauses.iter().filter_map(|clause| name(clause.trim())).collect()
}

/// Every row holds the names of its columns: longer ones are cut.
const NAME_CHARS: usize = 64;

/// The name at the head of a clause, without quotes.
fn name(clause: &str) -> Option<String> {
    let name = whole_name(clause)?;
    Some(name.chars().take(NAME_CHARS).collect())
}

fn whole_name(clause: &str) -> Option<&str> {
    let quoted = ['"', '`', '\'', '['].into_iter().find_map(|quote| clause.strip_prefix(quote));
    if let Some(rest) = quoted {
        return rest.split(['"', '`', '\'', ']']).next();
    }
    let word = clause.split_whitespace().next()?;
    (!CONSTRAINTS.contains(&word.to_lowercase().as_str())).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn columns_are_found_among_everything_else() {
        let sql = "CREATE TABLE \"a (b\" (\n id TEXT PRIMARY KEY, -- first, (second\n \
                   n INTEGER DEFAULT 0 CHECK (n >= 0, 1), /* , x */ \"odd, name\" REAL DEFAULT ',',\n \
                   [key] BLOB, FOREIGN KEY (id) REFERENCES t (id), unique(id, n)\n, added TEXT)";
        assert_eq!(columns(sql), ["id", "n", "odd, name", "key", "added"]);
        for broken in ["", "CREATE TABLE t", "CREATE TABLE t (", "CREATE TABLE t (a 'b", "("] {
            columns(broken);
        }
    }
}
