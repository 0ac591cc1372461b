//! What a search finds, and that nothing in a query is an instruction to a database.

use longhaul_engine::ApiFormat;
use longhaul_server::store::{SearchHit, SearchScope};

use super::ground::Ground;
use super::speech::{DIALECTS, Turn, bash, body, compact, long_session, record, reply, user};

tests! {
    Both: [
        words_identifiers_paths_codes_and_cjk_are_found,
        a_value_inside_a_longer_word_is_found,
        a_word_is_found_in_its_other_forms,
        an_answer_is_found_by_the_words_of_its_question,
        what_somebody_said_comes_before_what_others_said_of_it,
        an_excerpt_shows_the_sentence_that_answers,
        a_name_in_a_very_long_result_comes_before_longer_names,
        nothing_in_a_query_is_special,
        a_family_is_searched_as_a_whole_and_a_session_by_itself,
        what_the_view_lacks_comes_before_what_it_shows,
    ],
}

/// What each message says that no other does.
const SAID: [(&str, &str); 9] = [
    ("配置文件在哪里？请检查错误代码。", "错误代码"),
    ("The function parse_http_body fails.", "parse_http_body"),
    ("Look at readConfigFile again.", "readConfigFile"),
    ("It stands in crates/garden/src/beds/planner.rs somewhere.", "crates/garden/src/beds/planner.rs"),
    ("rustc says E0382 here.", "E0382"),
    ("She said \"mind the gap\" twice.", "\"mind the gap\""),
    ("Der Ärger mit Übermut.", "ärger"),
    ("The commit is 9f8e7d6c5b4a39281706f5e4d3c2b1a0deadbeef then.", "deadbeef"),
    ("설정 파일을 찾을 수 없습니다", "파일"),
];

fn talk() -> Vec<Turn> {
    let mut turns = vec![user("Plan the garden.")];
    for (n, (said, _)) in SAID.iter().enumerate() {
        turns.push(bash(&format!("look {n}"), &format!("some other line {n}\n{said}\nand the end {n}")));
        turns.push(reply(&format!("Seen {n}.")));
    }
    turns.push(user("Go on."));
    turns
}

fn first(hits: &[SearchHit]) -> &str {
    hits.first().map_or("nothing", |hit| hit.excerpt.as_str())
}

async fn words_identifiers_paths_codes_and_cjk_are_found(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let session = record(&store, &tenant, &body(api_format, &talk())).await.session;
        for (said, query) in SAID {
            let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap();
            assert!(first(&hits).contains(said), "{api_format:?} {query}: {}", first(&hits));
            let found = store.recall(&tenant, Some(&session), &hits[0].recall_id).await.unwrap();
            assert!(found.text.as_str().contains(said));
            assert_eq!((hits[0].kind.as_str(), hits[0].tool.as_deref()), ("result", Some("bash")));
        }
        // Parts of them, and words in other cases.
        for (query, said) in [
            ("http body", "parse_http_body"),
            ("config file", "readConfigFile"),
            ("PLANNER.RS", "planner.rs"),
            ("检查错误", "请检查错误"),
        ] {
            let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap();
            assert!(first(&hits).contains(said), "{api_format:?} {query}: {}", first(&hits));
        }
    }
}

async fn a_value_inside_a_longer_word_is_found(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &talk())).await.session;
    for (query, said) in [("7d6c5b4a", "9f8e7d6c5b4a"), ("eadbee", "deadbeef"), ("eConfigF", "readConfigFile")] {
        let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap();
        assert!(first(&hits).contains(said), "{query}: {}", first(&hits));
    }
    let none = store.search(&tenant, &session, SearchScope::Session, "zzzunseen", 5).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
}

/// A chat of two people, a line for each.
fn chat(lines: &[&str]) -> Vec<Turn> {
    lines.iter().enumerate().map(|(n, line)| if n % 2 == 0 { user(line) } else { reply(line) }).collect()
}

async fn a_word_is_found_in_its_other_forms(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let talk = chat(&[
        "We went to the harbour with the children.",
        "That sounds lovely.",
        "The boxes were stacked behind the shed.",
        "I see.",
        "My sister painted two lakes.",
        "Die Gärten waren groß.",
    ]);
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &talk)).await.session;
    for (query, said) in [
        ("going", "We went"),
        ("Where did the child go?", "We went"),
        ("box", "The boxes"),
        ("stacking", "The boxes"),
        ("Who paints a lake?", "painted two lakes"),
        ("gärten", "Gärten"),
    ] {
        let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap();
        assert!(first(&hits).contains(said), "{query}: {}", first(&hits));
    }
    // Words that only ask count if there is nothing else, and a form of another word is not found.
    for (query, count) in [("what were", 1), ("boxer", 0), ("whose", 0)] {
        let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap();
        assert_eq!(hits.len(), count, "{query}: {hits:?}");
    }
}

async fn an_answer_is_found_by_the_words_of_its_question(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut talk = chat(&["The garden has a long fence.", "The garden is wide.", "Fine."]);
    for _ in 0..6 {
        talk.extend(chat(&["Nothing else happened.", "All quiet, all calm."]));
    }
    talk.extend(chat(&["Which colour did you paint the shed?", "Green, like that gate at the end of the garden."]));
    for _ in 0..6 {
        talk.extend(chat(&["Nothing else happened.", "All quiet, all calm."]));
    }
    talk.extend(chat(&["The garden needs rain.", "A garden takes time."]));
    let session = record(&store, &tenant, &body(ApiFormat::Messages, &talk)).await.session;
    let query = "What colour is the shed in the garden?";
    let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap();
    assert!(first(&hits).contains("Which colour"), "{hits:?}");
    assert!(hits[1].excerpt.as_str().contains("Green"), "{hits:?}");
    assert!(first(&hits).contains("[next reply] Green"), "{hits:?}");
    // A turn that has nothing of the query is no hit, whatever stands beside it.
    assert!(hits.iter().all(|hit| !hit.excerpt.as_str().contains("quiet")), "{hits:?}");
}

async fn what_somebody_said_comes_before_what_others_said_of_it(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut talk = Vec::new();
    for n in 0..5 {
        talk.push(user(&format!("[9:0{n} am] Ann: Good morning, number {n}.")));
        talk.push(reply(&format!("Bob: Hello, number {n}.")));
    }
    talk.extend(chat(&["Ann: So be it.", "Bob: Yes.", "Ann: I would bake some bread for Bob.", "Bob: Fine."]));
    talk.extend(chat(&["Ann: Anything else?", "Bob: I would bake some bread for Ann.", "Ann: Thanks.", "Bob: Good."]));
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &talk)).await.session;
    for (query, said) in [("What does Ann bake?", "Ann: I"), ("What does Bob bake?", "Bob: I")] {
        let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap();
        assert!(first(&hits).starts_with(said), "{query}: {hits:?}");
    }
}

async fn an_excerpt_shows_the_sentence_that_answers(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let filler = "Nothing of any interest was said about that in this place at all. ".repeat(30);
    let long = format!("{filler}The migration was planned for 14 March. It had to wait for the new disks. {filler}");
    let talk = vec![user("Go on."), reply(&long), user("Thanks.")];
    let session = record(&store, &tenant, &body(ApiFormat::Responses, &talk)).await.session;
    let hits =
        store.search(&tenant, &session, SearchScope::Session, "When is the migration planned?", 5).await.unwrap();
    assert!(first(&hits).contains("planned for 14 March. It had to wait for the new disks."), "{hits:?}");
}

async fn a_name_in_a_very_long_result_comes_before_longer_names(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = vec![user("Make the build green.")];
    for step in 0..60 {
        let lines = if step == 3 { 20_000 } else { 20 };
        let output = format!("compiling unit {step} of the project\n").repeat(lines);
        turns.push(bash(&format!("make target{step}"), &output));
    }
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &turns)).await.session;
    for query in ["make target3", "target3", "what happened with target3?"] {
        let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap();
        assert!(first(&hits).contains("make target3\""), "{query}: {hits:?}");
    }
}

async fn nothing_in_a_query_is_special(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &talk())).await.session;
    let rows = ground.rows().await;
    let hostile = [
        "",
        " ",
        "\"",
        "\"\"",
        "'",
        "''",
        "*",
        "pars*",
        "NEAR(parse body)",
        "parse NEAR/2 body",
        "parse AND NOT body",
        "OR OR OR",
        "held:parse",
        "^parse",
        "{held} : x",
        "(",
        ")))",
        "'; DROP TABLE messages; --",
        "x'); DELETE FROM terms; --",
        "%",
        "_",
        "\\",
        "\\'",
        "$1",
        "?1",
        ":*",
        "!parse",
        "parse & body",
        "<->",
        "a\u{0}b",
        "\u{1}",
        "E'\\x27'",
        "\u{feff}\u{202e}",
    ];
    for query in hostile {
        let hits = store.search(&tenant, &session, SearchScope::Session, query, 5).await;
        hits.unwrap_or_else(|error| panic!("{query:?}: {error}"));
    }
    store.search(&tenant, &session, SearchScope::Session, &"word ' \" * ".repeat(20_000), 5).await.unwrap();
    assert_eq!(ground.rows().await, rows);
    // A star matches nothing more, and an operator is a word like any other.
    let starred = store.search(&tenant, &session, SearchScope::Session, "pars*", 5).await.unwrap();
    assert!(starred.iter().all(|hit| !hit.excerpt.as_str().contains("parse_http_body")), "{starred:?}");
    let hits = store.search(&tenant, &session, SearchScope::Session, "parse_http_body NOT body", 5).await.unwrap();
    assert!(first(&hits).contains("parse_http_body"));
}

async fn a_family_is_searched_as_a_whole_and_a_session_by_itself(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = talk();
    turns.push(reply("The parent alone says heliotrope."));
    let parent = record(&store, &tenant, &body(ApiFormat::Messages, &turns)).await.session;
    *turns.last_mut().unwrap() = reply("The fork alone says marigold.");
    let fork = record(&store, &tenant, &body(ApiFormat::Messages, &turns)).await.session;
    record(&store, &tenant, &body(ApiFormat::Messages, &[user("A stranger says heliotrope and marigold.")])).await;
    let search = async |session, scope, query| {
        let hits: Vec<SearchHit> = store.search(&tenant, session, scope, query, 5).await.unwrap();
        hits.into_iter().map(|hit| hit.session_name).collect::<Vec<_>>()
    };
    assert_eq!(search(&parent, SearchScope::Session, "heliotrope").await, [parent.name.clone()]);
    assert_eq!(search(&fork, SearchScope::Session, "marigold").await, [fork.name.clone()]);
    assert!(search(&fork, SearchScope::Session, "heliotrope").await.is_empty());
    assert!(search(&parent, SearchScope::Session, "marigold").await.is_empty());
    for session in [&parent, &fork] {
        assert_eq!(search(session, SearchScope::Family, "heliotrope").await, [parent.name.clone()]);
        assert_eq!(search(session, SearchScope::Family, "marigold").await, [fork.name.clone()]);
        // What both share is found once.
        assert_eq!(search(session, SearchScope::Family, "E0382").await, [parent.name.clone()]);
        assert_eq!(search(session, SearchScope::Session, "E0382").await, [parent.name.clone()]);
    }
}

async fn what_the_view_lacks_comes_before_what_it_shows(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    turns.insert(2, bash("grep", &format!("{}zinnia stands in bed 4711\n", "line of noise\n".repeat(60))));
    turns.push(reply("There is a zinnia somewhere."));
    turns.push(user("Where is it?"));
    let (session, outcome) = compact(&store, &tenant, &body(ApiFormat::Chat, &turns), 2_000).await;
    assert!(outcome.body.contains("There is a zinnia somewhere."), "the newest stays");
    let hits = store.search(&tenant, &session, SearchScope::Session, "where does the zinnia stand", 50).await.unwrap();
    assert!(!hits[0].is_visible && first(&hits).contains("bed 4711"), "{hits:?}");
    assert!(hits.iter().any(|hit| hit.is_visible));
}
