//! What a tool does, whatever an agent calls it.

use serde::{Deserialize, Serialize};

use super::Tool;

/// Role of a tool (docs/decisions.md 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Shows a file or another resource by its name.
    Read,
    /// Runs commands, or talks to one that runs.
    Shell,
    /// Changes a part of a file.
    Edit,
    /// Writes a whole file.
    Write,
    /// Looks for files, text or tools.
    Search,
    /// Fetches from or searches the web.
    Web,
    /// Keeps the list of what is to be done.
    Todo,
    /// Enters or leaves a mode in which the agent plans.
    Plan,
    /// Starts, asks or ends another agent.
    Agent,
    /// Anything that no table names.
    Other,
}

impl Role {
    /// Every role, with its word in tool lists.
    pub const ALL: [(Role, &'static str); 10] = [
        (Role::Read, "read"),
        (Role::Shell, "shell"),
        (Role::Edit, "edit"),
        (Role::Write, "write"),
        (Role::Search, "search"),
        (Role::Web, "web"),
        (Role::Todo, "todo"),
        (Role::Plan, "plan"),
        (Role::Agent, "agent"),
        (Role::Other, "other"),
    ];

    /// Its word in tool lists.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(role, _)| *role == self).map_or("other", |(_, word)| word)
    }

    /// Role of tool `name` in recordings of `format`: by that format's names first, then by names
    /// common to all; anything else is [`Role::Other`].
    pub fn of(format: &str, name: &str) -> Role {
        let own = ALIASES.iter().filter(|(f, _)| *f == format);
        let common = ALIASES.iter().filter(|(f, _)| f.is_empty());
        own.chain(common)
            .flat_map(|(_, rows)| rows.iter())
            .find(|(_, names)| names.iter().any(|n| n.eq_ignore_ascii_case(name)))
            .map_or(Role::Other, |(role, _)| *role)
    }
}

impl Role {
    /// Role of a tool whose format is not known: by the names common to all, else by those of any format.
    pub fn of_any(name: &str) -> Role {
        let formats = ALIASES.iter().map(|(format, _)| *format).filter(|format| !format.is_empty());
        let roles = std::iter::once("").chain(formats).map(|format| Role::of(format, name));
        roles.into_iter().find(|role| *role != Role::Other).unwrap_or(Role::Other)
    }
}

type Names = &'static [(Role, &'static [&'static str])];

/// Tools of Claude Code, whoever recorded it.
const CLAUDE_CODE: Names = &[
    (Role::Read, &["Read", "NotebookRead", "ReadMcpResourceTool"]),
    (Role::Shell, &["Bash", "BashOutput", "KillShell", "KillBash", "PowerShell"]),
    (Role::Edit, &["Edit", "MultiEdit", "NotebookEdit"]),
    (Role::Write, &["Write"]),
    (Role::Search, &["Grep", "Glob", "LS", "LSP", "ToolSearch"]),
    (Role::Web, &["WebFetch", "WebSearch"]),
    (Role::Todo, &["TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"]),
    (Role::Plan, &["ExitPlanMode", "EnterPlanMode", "exit_plan_mode"]),
    (Role::Agent, &["Task", "Agent", "TaskOutput", "AgentOutputTool", "TaskStop", "SendMessage"]),
];

/// Tools of OpenHands, before and with its SDK.
const OPENHANDS: Names = &[
    (Role::Shell, &["execute_ipython_cell"]),
    (Role::Edit, &["str_replace_editor", "file_editor"]),
    (Role::Web, &["browser", "browser_use"]),
    (Role::Todo, &["task_tracker"]),
];

/// Tool names by recording format; the rows of format "" hold for all.
const ALIASES: &[(&str, Names)] = &[
    ("claude-code", CLAUDE_CODE),
    (
        "codex",
        &[
            (Role::Read, &["view_image", "read_mcp_resource"]),
            (Role::Shell, &["shell_command", "local_shell", "write_stdin", "unified_exec"]),
            (Role::Search, &["tool_search", "grep_files", "list_dir", "list_mcp_resources"]),
            (Role::Agent, &["send_input", "wait_agent", "wait", "close_agent", "resume_agent"]),
        ],
    ),
    (
        "opencode",
        &[
            (Role::Edit, &["multiedit"]),
            (Role::Search, &["list", "codesearch", "lsp"]),
            (Role::Web, &["webfetch", "websearch"]),
            (Role::Todo, &["todoread"]),
            (Role::Plan, &["plan_enter", "plan_exit"]),
        ],
    ),
    (
        "gemini-cli",
        &[
            (Role::Search, &["grep_search", "search_file_content"]),
            (Role::Plan, &["enter_plan_mode", "exit_plan_mode"]),
            (Role::Agent, &["delegate_to_agent", "codebase_investigator"]),
        ],
    ),
    ("openhands", OPENHANDS),
    ("openhands-sdk", OPENHANDS),
    // Written by OpenHands among others.
    ("litellm", OPENHANDS),
    ("atif", OPENHANDS),
    ("claude-trace", CLAUDE_CODE),
    ("inspect", &[(Role::Shell, &["python"]), (Role::Edit, &["text_editor"])]),
    (
        "copilot-cli",
        &[
            (Role::Shell, &["read_bash", "write_bash", "stop_bash", "read_powershell", "powershell"]),
            (Role::Write, &["create"]),
            (Role::Todo, &["report_intent"]),
            (Role::Agent, &["read_agent", "list_agents"]),
        ],
    ),
    (
        "cline",
        &[
            (Role::Shell, &["execute_command"]),
            (Role::Edit, &["replace_in_file", "apply_diff", "insert_content", "search_and_replace"]),
            (Role::Write, &["write_to_file"]),
            (Role::Search, &["search_files", "list_files", "list_code_definition_names", "codebase_search"]),
            (Role::Web, &["browser_action", "access_mcp_resource"]),
            (Role::Todo, &["update_todo_list", "focus_chain"]),
            (Role::Plan, &["plan_mode_respond", "switch_mode"]),
            (Role::Agent, &["new_task", "use_subagents"]),
        ],
    ),
    (
        "crush",
        &[
            (Role::Read, &["diagnostics", "lsp_diagnostics"]),
            (Role::Shell, &["job_output", "job_kill"]),
            (Role::Edit, &["multiedit"]),
            (Role::Search, &["sourcegraph", "references", "lsp_references"]),
            (Role::Web, &["download", "agentic_fetch"]),
            (Role::Todo, &["todos"]),
        ],
    ),
    (
        "goose",
        &[
            (Role::Shell, &["developer__shell"]),
            (Role::Edit, &["developer__text_editor"]),
            (Role::Search, &["developer__analyze"]),
            (Role::Todo, &["todo__todo_write", "todo__todo_read"]),
            (Role::Agent, &["dynamic_task__create_task", "subagent__execute_task"]),
        ],
    ),
    (
        "",
        &[
            (Role::Read, &["read", "read_file", "read_many_files", "view", "cat", "open_file"]),
            (
                Role::Shell,
                &[
                    "bash",
                    "shell",
                    "exec",
                    "exec_command",
                    "run_command",
                    "run_shell_command",
                    "execute_bash",
                    "terminal",
                ],
            ),
            (
                Role::Edit,
                &["edit", "multi_edit", "edit_file", "apply_patch", "patch", "replace", "str_replace"],
            ),
            (Role::Write, &["write", "write_file", "create_file"]),
            (Role::Search, &["grep", "glob", "ls", "find", "search", "list_directory", "rg"]),
            (Role::Web, &["web", "fetch", "web_fetch", "web_search", "google_web_search"]),
            (Role::Todo, &["todo", "todo_write", "todowrite", "todo_read", "write_todos", "update_todo"]),
            (Role::Plan, &["plan", "update_plan"]),
            (Role::Agent, &["agent", "task", "spawn_agent", "subagent", "delegate"]),
        ],
    ),
];

impl Tool {
    /// Whether an entry of a tool list names this tool: `exact:NAME` by that name alone; else by the
    /// word of its role, its exact name, or its name in any case (docs/decisions.md 16).
    pub fn matches(&self, pattern: &str) -> bool {
        match pattern.strip_prefix("exact:") {
            Some(name) => self.name == name,
            None => self.role.word() == pattern || self.name.to_lowercase() == pattern.to_lowercase(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        Tool { name: name.into(), role: Role::of("claude-code", name) }
    }

    #[test]
    fn tool_lists_match_role_name_or_literal() {
        for (name, pattern, expected) in [
            ("Read", "read", true),
            ("NotebookRead", "read", true),
            ("NotebookRead", "notebookread", true),
            ("Read", "exact:read", false),
            ("Read", "exact:Read", true),
            ("TodoWrite", "todo", true),
            ("ExitPlanMode", "plan", true),
            ("mcp__db__query", "MCP__DB__QUERY", true),
            ("mcp__db__query", "other", true),
            ("Bash", "read", false),
        ] {
            assert_eq!(tool(name).matches(pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn names_common_to_all_formats_are_known_everywhere() {
        assert_eq!(Role::of("pi", "read_file"), Role::Read);
        assert_eq!(Role::of("", "apply_patch"), Role::Edit);
        assert_eq!(Role::of("openhands", "str_replace_editor"), Role::Edit);
        assert_eq!(Role::of("claude-trace", "KillShell"), Role::Shell);
        assert_eq!(Role::of("claude-code", "Skill"), Role::Other);
        assert_eq!(
            [Role::of_any("WebFetch"), Role::of_any("read"), Role::of_any("x")],
            [Role::Web, Role::Read, Role::Other]
        );
    }

    #[test]
    fn every_role_has_its_own_word() {
        for (role, word) in Role::ALL {
            assert_eq!(role.word(), word);
        }
    }
}
