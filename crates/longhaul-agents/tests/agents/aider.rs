//! What is read of aider's history, a rule each.

use longhaul_agents::{
    Agent, AgentSession, Extent, MessagePart, ReadOptions, Timestamp, UserEnvironment, list_sessions,
    read as read_place,
};
use longhaul_engine::{ApiFormat, Tokens};

use crate::support::{self, Folder, shown};

tests! {
    always: [
        users_programs_and_models_are_told_apart_by_how_lines_begin,
        the_newest_session_with_an_answer_is_meant_and_all_of_them_with_whole,
        every_start_is_a_session_of_its_own,
        what_a_request_took_is_as_exact_as_it_is_written,
        the_file_is_looked_for_up_to_the_root_of_the_repository,
        a_file_without_a_start_is_none,
    ],
    real: [],
}

const HISTORY: &str = "
# aider chat started at 2026-04-01 10:00:00

> aider --model sonnet  
> Models: claude-sonnet-4-5 with diff edit format, weak model claude-haiku-4-5  

#### sow the beds  
#### and water them  

Here is how:

# A headline
```
    rows = 7
```

> Tokens: 5,244 sent, 604 received. Cost: $0.02 request, $0.02 session.  
> Applied edit to beds.py  

#### thanks  

# aider chat started at 2026-04-02 11:30:00

> Main model: gpt-5 with diff edit format  

#### hi  

Hello.

> Tokens: 12k sent, 3.4k cache write, 2.0k cache hit, 84 received. Cost: $0.0019 message, $0.31 session.  

# aider chat started at 2026-04-03 12:00:00

#### /exit  
";

fn read(extent: Extent) -> AgentSession {
    let folder = Folder::new();
    let path = folder.file(".aider.chat.history.md", HISTORY);
    support::read(&path, &ReadOptions { extent, ..ReadOptions::default() }).unwrap()
}

fn words(session: &AgentSession, turn: usize) -> &str {
    match &session.messages[turn].parts[0].0 {
        MessagePart::Text(words) => words,
        other => panic!("{other:?}"),
    }
}

fn users_programs_and_models_are_told_apart_by_how_lines_begin() {
    let session = read(Extent::FullHistory);
    assert_eq!(
        shown(&session),
        "user: L7 text | assistant: L9 text | user: L20 text | user: L26 text | assistant: L27 text | user: L34 text"
    );
    assert_eq!(words(&session, 0), "sow the beds\nand water them");
    assert_eq!(words(&session, 1), "Here is how:\n\n```\n    rows = 7\n```");
    assert_eq!((session.agent, session.api_format), (Agent::Aider, ApiFormat::Chat));
}

fn the_newest_session_with_an_answer_is_meant_and_all_of_them_with_whole() {
    let session = read(Extent::NextRequest);
    assert_eq!(shown(&session), "user: L26 text | assistant: L27 text");
    assert_eq!((session.id.as_str(), session.model.as_deref()), ("2026-04-02 11:30:00", Some("gpt-5")));
    assert_eq!(session.started, Timestamp::parse("2026-04-02T11:30:00Z"));
    assert_eq!(read(Extent::FullHistory).requests.len(), 2);
}

fn every_start_is_a_session_of_its_own() {
    let folder = Folder::new();
    folder.file("garden/.aider.chat.history.md", HISTORY);
    let machine = UserEnvironment { current_dir: folder.0.join("garden"), ..UserEnvironment::default() };
    let mut found = list_sessions(&machine, Some(Agent::Aider));
    found.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<_> = found.iter().map(|place| place.id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["2026-04-01 10:00:00", "2026-04-02 11:30:00"]);
    let first = read_place(&found[0], &ReadOptions { extent: Extent::FullHistory, ..ReadOptions::default() }).unwrap();
    assert_eq!((first.id.as_str(), first.messages.len()), ("2026-04-01 10:00:00", 3));
    assert_eq!(first.project, Some(folder.0.join("garden").display().to_string()));
}

fn what_a_request_took_is_as_exact_as_it_is_written() {
    let session = read(Extent::FullHistory);
    let [first, second] = session.requests.as_slice() else { panic!("two") };
    assert_eq!((first.usage.input, first.usage.output), (Some(Tokens(5244)), Some(Tokens(604))));
    assert_eq!(
        (first.reply_index, first.dollars, first.model.as_deref()),
        (Some(1), Some(0.02), Some("claude-sonnet-4-5"))
    );
    assert_eq!((second.usage.input, second.usage.read), (Some(Tokens(12_000)), Some(Tokens(2000))));
    assert_eq!((second.usage.written, second.usage.output), (Some(Tokens(3400)), Some(Tokens(84))));
    assert_eq!((second.reply_index, second.dollars, second.model.as_deref()), (Some(4), Some(0.0019), Some("gpt-5")));
}

fn the_file_is_looked_for_up_to_the_root_of_the_repository() {
    let folder = Folder::new();
    folder.file("outside/.aider.chat.history.md", HISTORY);
    folder.file("outside/repo/.git/HEAD", "ref");
    folder.file("outside/repo/.aider.chat.history.md", HISTORY);
    folder.file("outside/repo/src/a.txt", "");
    let mut machine = UserEnvironment { current_dir: folder.0.join("outside/repo/src"), ..UserEnvironment::default() };
    let paths = |machine: &UserEnvironment| -> Vec<_> {
        list_sessions(machine, Some(Agent::Aider)).into_iter().map(|place| place.path).collect()
    };
    let repo = folder.0.join("outside/repo/.aider.chat.history.md");
    assert_eq!(paths(&machine), [repo.clone(), repo]);
    machine.variables.insert("AIDER_CHAT_HISTORY_FILE".to_owned(), "../../.aider.chat.history.md".to_owned());
    assert_eq!(paths(&machine).len(), 2);
    let nowhere =
        UserEnvironment { current_dir: folder.0.join("outside/repo/src/deeper"), ..UserEnvironment::default() };
    std::fs::remove_dir_all(folder.0.join("outside/repo/.git")).unwrap();
    assert_eq!(paths(&nowhere).len(), 0);
}

fn a_file_without_a_start_is_none() {
    let folder = Folder::new();
    let path = folder.file("notes.md", "# notes\n\n#### a headline\n");
    assert!(longhaul_agents::recognize_path(&path).unwrap().is_none());
}
