//! Task folders of Cline and Roo, hand-made.

use ctxsim::ingest::{self, ReadOptions};
use ctxsim::transcript::Transcript;

use crate::ingest_sketch::{fixture, read_bytes, sketch, transcript};

fn task(name: &str) -> Transcript {
    let path = fixture(&format!("cline/{name}/api_conversation_history.json"));
    let source = ingest::input::open(&path).unwrap();
    let mut recordings = ingest::read(source, &path, &ReadOptions::default()).unwrap();
    assert_eq!(recordings.len(), 1);
    transcript(recordings.remove(0))
}

#[test]
fn a_folder_is_one_recording() {
    let folder = fixture("cline/task-1");
    let found = ingest::input::resolve(&[folder.to_str().unwrap()]).unwrap();
    assert_eq!(found, [folder.join("api_conversation_history.json")]);
    let task = task("task-1");
    assert_eq!((task.format, &*task.session_id, &task.notices[..]), ("cline", "task-1", &[][..]));
}

#[test]
fn calls_in_xml_retries_and_a_truncation() {
    assert_eq!(
        sketch(&task("task-1")),
        [
            "1 input <task>\nfix it\n</task>",
            "1 inject <environment_details>\nfiles\n</environment_details>",
            r#"2 task-1-2 3+0+900+0>20 look: | call xml-2 read_file {"path":"a.rs"}"#,
            "3 input result xml-2 [[read_file for 'a.rs'] Result:, fn main() {}]",
            "3 inject <environment_details>\nnow\n</environment_details>",
            // Broken off and sent again: both were billed.
            "4 task-1-request-2 4+900+0+0>1? ",
            r#"4 task-1-4 4+900+60+0>15  | call xml-4 execute_command {"command":"ls"}"#,
            // From here on the first call and its result are left out.
            "5 compaction auto 0 0",
            "5 inject <task>\nfix it\n</task> | <environment_details>\nfiles\n</environment_details> | look:\n<read_file>\n<path>a.rs</path>\n</read_file>",
            "5 input result xml-4 [[execute_command for 'ls'] Result:, a.rs]",
            "5 input <feedback>\nno, b.rs\n</feedback>",
            "6 task-1-6 5+0+0+0>9 done",
        ]
    );
}

#[test]
fn counts_that_include_what_is_cached_and_requests_without_an_answer() {
    let task = task("roo-2");
    assert_eq!(task.parent_session_id.as_deref(), Some("task-1"));
    assert_eq!(
        sketch(&task),
        [
            "1 input <user_message>\nhi\n</user_message>",
            r#"2 roo-2-2 3+100+900+0>20 thinking "hm" 3 | ok | call t1 read_file {"path":"a"} | call t2 list_files {}"#,
            "3 input result t1 [body, image None 4] | error t2 [none]",
            "3 inject <environment_details>\nx\n</environment_details>",
            // Less than what was read from the cache is what is left of it.
            "4 roo-2-4 7+1000+0+0>8 bye",
            "5 roo-2-request-3 50+0+0+0>0? ",
        ]
    );
    assert_eq!(task.notices.len(), 1, "a negative count is named: {:?}", task.notices);
}

#[test]
fn a_condensed_history_keeps_what_stands_behind_its_summary() {
    assert_eq!(
        sketch(&task("condensed-3")),
        [
            "1 input <task>\nlong\n</task>",
            "2 condensed-3-2 10+0+0+0>1 one",
            "3 input two",
            "5 condensed-3-5 20+0+0+0>1 three",
            "4 compaction auto 21 9",
            "4 inject SUM",
            "4 inject <task>\nlong\n</task> | three",
            "6 input four",
            "7 condensed-3-7 12+0+0+0>1 five",
        ]
    );
}

#[test]
fn messages_alone_are_read_too() {
    let text = std::fs::read(fixture("cline/roo-2/api_conversation_history.json")).unwrap();
    let transcript = &read_bytes(&text).unwrap()[0];
    assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (2, 2));
    for cut in 0..text.len() {
        let _ = read_bytes(&text[..cut]);
    }
}
