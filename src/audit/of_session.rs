//! The facts of a session without text: one that ctxsim wrote as a trace.

use super::account::{Account, Call, Request};
use super::signs::Signs;
use crate::session::roles::Role;
use crate::session::{BlockKind, DropReason, EventKind, Flags, Marks, Session, Step};

impl Account {
    /// The facts of a session. What a trace does not keep is not there: when an answer began, calls and
    /// results that do not pair, which of several calls read one file, and costs that a recording states.
    pub fn of_session(session: &Session) -> Account {
        let mut account = Account {
            session_id: session.id.clone(),
            parent: session.parent.clone(),
            format: session.origin.format.clone(),
            agent: session.origin.agent.clone(),
            models: vec![session.model.clone()],
            ..Account::default()
        };
        let mut events = session.events.iter().peekable();
        let (mut model, mut answer) = (0, None);
        for (index, step) in (0_u32..).zip(&session.steps) {
            let mut request = input_of(session, step, answer);
            while let Some(event) = events.next_if(|event| event.before_step <= index) {
                if let EventKind::ModelChanged { model: id } = &event.kind {
                    model = index_of(&mut account.models, id);
                }
                note(&event.kind, index, session, &mut request, &mut account.calls);
            }
            request.model = model;
            calls_of(session, step, index, &mut account.calls);
            account.requests.push(request);
            answer = Some(step);
        }
        account
    }
}

fn index_of(models: &mut Vec<String>, id: &str) -> u32 {
    let at = models.iter().position(|m| m == id).unwrap_or_else(|| {
        models.push(id.to_owned());
        models.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn input_of(session: &Session, step: &Step, answer: Option<&Step>) -> Request {
    let blocks = &session.blocks;
    let sent = |i: &usize| blocks.kind[*i] != BlockKind::Thinking || blocks.flags[*i].has(Flags::SIGNED);
    let answered = answer.map(|before| before.output.start as usize..before.output.end as usize);
    let answered = answered.unwrap_or_default();
    let input = step.input.start as usize..step.input.end as usize;
    let mut signs = Signs::default();
    let mut image_tokens = 0_u32;
    for i in input.clone() {
        match blocks.kind[i] {
            BlockKind::Image => image_tokens = image_tokens.saturating_add(blocks.tokens[i]),
            _ => {
                let parts = u32::try_from(i).ok().and_then(|block| session.parts_of(block));
                image_tokens = image_tokens.saturating_add(parts.map_or(0, |parts| parts.image_tokens));
            }
        }
    }
    signs.set(Signs::PROMPT, step.human_turn);
    signs.set(Signs::IMAGE, image_tokens > 0);
    signs.set(Signs::LOADED_TOOLS, step.facts.loaded_tools > 0);
    signs.set(Signs::SKILL, step.facts.marks.has(Marks::SKILL_LOADED));
    signs.set(Signs::THINKING, answered.clone().any(|i| blocks.kind[i] == BlockKind::Thinking));
    let new_blocks = answered.filter(sent).count() + input.len();
    Request {
        start_ms: step.start_ms,
        usage: step.recorded,
        signs,
        new_blocks: u32::try_from(new_blocks).unwrap_or(u32::MAX),
        image_tokens,
        ..Request::default()
    }
}

/// Takes an event before a request into account.
fn note(kind: &EventKind, index: u32, session: &Session, request: &mut Request, calls: &mut [Call]) {
    let sign = match kind {
        EventKind::ToolsChanged { .. } => Signs::TOOLS,
        EventKind::SystemChanged { .. } => Signs::SYSTEM,
        EventKind::ParametersChanged { .. } => Signs::PARAMETERS,
        EventKind::Resumed => Signs::RESUMED,
        EventKind::RecordedCompaction { .. }
        | EventKind::ManualCompaction
        | EventKind::BlocksDropped { reason: DropReason::Compaction, .. } => Signs::COMPACTION,
        EventKind::BlocksDropped { reason: DropReason::Clear, .. } => Signs::CLEARED,
        EventKind::BlocksDropped { reason: DropReason::Rewind, .. } => Signs::REWOUND,
        EventKind::RecordedClearing { blocks, .. } => {
            for block in blocks.iter().map(|block| *block as usize) {
                let call = session.blocks.call.get(block).and_then(|call| calls.get_mut(*call as usize));
                call.map(|call| call.cleared_before.get_or_insert(index));
            }
            Signs::RESULTS_CLEARED
        }
        EventKind::ModelChanged { .. } | EventKind::BlocksDropped { reason: DropReason::Unexplained, .. } => {
            return;
        }
    };
    request.signs.set(sign, true);
}

/// The calls that a step's answer made, in the order of their numbers.
fn calls_of(session: &Session, step: &Step, index: u32, calls: &mut Vec<Call>) {
    let blocks = &session.blocks;
    let output = step.output.start as usize..step.output.end as usize;
    for i in output.filter(|i| blocks.kind[*i] == BlockKind::ToolUse) {
        let role = session.tools.get(blocks.tool[i] as usize).map_or(Role::Other, |tool| tool.role);
        calls.push(Call { request: index, target: blocks.hash[i], role, cleared_before: None });
    }
}
