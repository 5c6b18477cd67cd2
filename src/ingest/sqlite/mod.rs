//! Tables of a SQLite database as rows, read from its bytes (sqlite.org/fileformat2.html, read 2026-11-30).
//!
//! Agents that keep sessions in SQLite may have the file open. Opening it as a database would make files
//! beside theirs; this reads the bytes, and those of the write-ahead log `NAME-wal` where there is one, and
//! writes nothing. Only ordinary tables are read: no index, no query, no view.
//!
//! # Divergence from the real API
//!
//! A rollback journal is not replayed: a database that crashed amid a transaction shows its unfinished pages.
//! Columns that were added later are absent from older rows, whatever their default is. Of names of columns
//! the first 64 characters are kept.

mod page;
mod schema;
mod wal;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::transcript::Notice;
use page::{Pages, record, varint};
use schema::{Table, table};

/// First bytes of every database.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

/// Larger databases are not read.
const MAX_BYTES: u64 = 1 << 30;

/// Bytes in which the list of tables is looked for.
const SCHEMA_BYTES: u64 = 4 << 20;

/// Levels of pages below a table's first one; a real table has five at most.
const MAX_DEPTH: usize = 20;

/// A row: its columns by name.
pub type Row = Map<String, Value>;

/// A database in memory.
#[derive(Debug)]
pub struct Database {
    pages: Pages,
    tables: Vec<Table>,
    /// Why not all of it could be read.
    damage: BTreeSet<String>,
}

impl Database {
    /// Reads the database in `source`, with the log beside `label`.
    ///
    /// # Errors
    ///
    /// Those of `source`; a database that is too large; what is none.
    pub fn read(source: &mut dyn BufRead, label: &Path) -> io::Result<Database> {
        let bytes = take(source, MAX_BYTES)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("the database has more than {} MiB", MAX_BYTES >> 20)));
        }
        let pages =
            Pages::new(bytes, wal::beside(label)).ok_or_else(|| io::Error::other("no SQLite database"))?;
        let mut database = Database { pages, tables: Vec::new(), damage: BTreeSet::new() };
        let schema = Table {
            name: String::new(),
            columns: schema::OF_SCHEMA.map(str::to_owned).to_vec(),
            first_page: 1,
        };
        database.tables = database.walk(&schema).iter().filter_map(table).collect();
        Ok(database)
    }

    /// The rows of a table in the order of their numbers, each with its number as column `rowid`; none where
    /// there is no such table.
    pub fn rows(&mut self, name: &str) -> Vec<Row> {
        let table = self.tables.iter().find(|t| t.name == name).cloned();
        table.map_or_else(Vec::new, |table| self.walk(&table))
    }

    /// Why not all of what was asked for could be read.
    pub fn notices(&self) -> Vec<Notice> {
        self.damage.iter().map(|reason| Notice { line: 0, reason: reason.clone() }).collect()
    }

    /// Names of the tables, each with its columns.
    fn outline(&self) -> Map<String, Value> {
        self.tables.iter().map(|t| (t.name.clone(), Value::from(t.columns.clone()))).collect()
    }

    fn walk(&mut self, table: &Table) -> Vec<Row> {
        let (mut rows, mut seen) = (Vec::new(), BTreeSet::new());
        // Rows share no bytes, so together they are no larger than the database.
        let mut left = self.pages.total_bytes();
        // Depth first, the leftmost page on top.
        let mut stack = vec![(table.first_page, 0)];
        while let Some((number, depth)) = stack.pop() {
            if depth > MAX_DEPTH || !seen.insert(number) {
                self.damage.insert("pages of a table form a circle".to_owned());
                continue;
            }
            let Some(page) = self.pages.get(number) else {
                self.damage.insert("pages are missing: the database is cut off".to_owned());
                continue;
            };
            let Some(tree) = page::Tree::of(&page, number) else {
                self.damage.insert("a page is no page of a table".to_owned());
                continue;
            };
            if tree.is_leaf {
                for cell in tree.cells() {
                    match self.row(table, &page, cell, &mut left) {
                        Some(row) => rows.push(row),
                        None => drop(self.damage.insert("a row cannot be read".to_owned())),
                    }
                }
            } else {
                let children =
                    tree.cells().filter_map(|cell| page::u32_at(&page, cell)).chain(tree.last_child);
                let at = stack.len();
                stack.extend(children.map(|child| (child, depth + 1)));
                stack[at..].reverse();
            }
        }
        rows
    }

    fn row(&self, table: &Table, page: &[u8], cell: usize, left: &mut usize) -> Option<Row> {
        let (length, at) = varint(page, cell)?;
        let (rowid, at) = varint(page, at)?;
        let length = usize::try_from(length).ok()?;
        *left = left.checked_sub(length)?;
        let payload = self.pages.payload(page, at, length)?;
        let values = record(&payload, self.pages.encoding)?.into_iter();
        let mut row = Row::new();
        // Numbers of rows are signed; real ones are positive.
        let rowid = Value::from(rowid.cast_signed());
        // Columns that were added later are not in every row. A statement can declare thousands, and rows of a
        // byte would each hold them all.
        for (name, value) in table.columns.iter().zip(values) {
            row.insert(name.clone(), value);
        }
        row.insert("rowid".to_owned(), rowid);
        Some(row)
    }
}

/// A column with a text; empty where it holds none.
pub fn column<'r>(row: &'r Row, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Rows by the text of a column, in their order.
pub fn grouped(rows: Vec<Row>, name: &str) -> BTreeMap<String, Vec<Row>> {
    let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(column(&row, name).to_owned()).or_default().push(row);
    }
    groups
}

/// What stands for the fields of the first object where a database is looked at: `sqlite`, with tables and
/// their columns. The log beside it counts: a young database may have all its tables there. `head` is what was read
/// for it: the beginning, or all where the list of tables goes on behind, as that of a database that grew does.
///
/// # Errors
///
/// Those of `source`.
pub fn outline(source: &mut dyn BufRead, head: &mut Vec<u8>, label: &Path) -> io::Result<Map<String, Value>> {
    let mut database = None;
    for limit in [SCHEMA_BYTES, MAX_BYTES] {
        let limit = limit + 1 - head.len() as u64;
        if source.take(limit).read_to_end(head)? == 0 {
            break;
        }
        database = Database::read(&mut &head[..], label).ok();
        if database.as_ref().is_none_or(|database| database.damage.is_empty()) {
            break;
        }
    }
    let tables = database.map(|database| database.outline()).unwrap_or_default();
    Ok(Map::from_iter([("sqlite".to_owned(), Value::Object(tables))]))
}

/// Whether an outline has a table with these columns.
pub fn has(outline: &Map<String, Value>, table: &str, columns: &[&str]) -> bool {
    let there = outline.get("sqlite").and_then(|tables| tables.get(table)).and_then(Value::as_array);
    there.is_some_and(|there| columns.iter().all(|c| there.iter().any(|name| name.as_str() == Some(c))))
}

fn take(source: &mut dyn BufRead, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{Database, MAGIC, SCHEMA_BYTES, has, outline};

    /// A database of two pages: the table `t` of this statement, and its one row of one column, 7.
    fn database(sql: &str) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16] = 2;
        let kind = u8::try_from(13 + 2 * sql.len()).expect("a short statement");
        // The head's length, and the kinds of its five columns: three texts, a byte, a text.
        let mut record = vec![7, 23, 15, 15, 1, 0x80 | kind >> 7, kind & 0x7f];
        record.extend(b"tablett\x02");
        record.extend(sql.as_bytes());
        // A leaf with one cell: its length, number 1, and the record.
        let mut leaf = |page: usize, header: usize, record: &[u8]| {
            bytes[page + header..][..10].copy_from_slice(&[0x0d, 0, 0, 0, 1, 0, 0, 0, 0, 200]);
            bytes[page + 200..][..2].copy_from_slice(&[u8::try_from(record.len()).expect("short"), 1]);
            bytes[page + 202..][..record.len()].copy_from_slice(record);
        };
        leaf(0, 100, &record);
        leaf(512, 0, &[2, 1, 7]);
        bytes
    }

    #[test]
    fn rows_hold_the_columns_they_have_under_names_of_bounded_length() {
        let rows = |sql: &str| {
            let bytes = database(sql);
            Database::read(&mut &bytes[..], Path::new("none")).expect("a database").rows("t")
        };
        assert_eq!(json!(rows("CREATE TABLE t (a, b, added)")), json!([{"a": 7, "rowid": 1}]));
        let long = "x".repeat(90);
        let row = rows(&format!("CREATE TABLE t ({long})")).remove(0);
        assert_eq!(row.keys().map(String::len).collect::<Vec<_>>(), [64, 5]);
    }

    #[test]
    fn a_list_of_tables_that_goes_on_at_the_end_is_found() {
        let old = database("CREATE TABLE t (a)");
        let pages = usize::try_from(SCHEMA_BYTES).expect("small") / 512 + 2;
        let mut grown = vec![0; pages * 512];
        grown[..1024].copy_from_slice(&old);
        // The first page is a node now, without cells and with the last page as its child.
        grown[100..112].copy_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        grown[108..112].copy_from_slice(&u32::try_from(pages).expect("small").to_be_bytes());
        let last = grown.len() - 512;
        grown[last..last + 12].copy_from_slice(&old[100..112]);
        grown[last + 200..].copy_from_slice(&old[200..512]);
        for bytes in [old, grown] {
            let mut head = Vec::new();
            let outline = outline(&mut &bytes[..], &mut head, Path::new("none")).expect("read from memory");
            assert!(has(&outline, "t", &["a"]), "{outline:?}");
            assert_eq!(head.len(), bytes.len());
        }
    }
}
