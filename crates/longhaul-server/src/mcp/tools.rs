//! The one table of tools: what each is called, takes, says of itself, and does to the world.

use rmcp::model::{Tool as Definition, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::recall;

/// What a client can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// One of those that a gateway offers to models, too.
    Recall(recall::Tool),
    Status,
    Compress,
    Undo,
}

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Looks,
    /// It decides which view of a session is in force. Nothing is deleted by it, and it can be taken back.
    Decides,
}

impl Tool {
    pub(super) const ALL: [Self; 6] = [
        Self::Recall(recall::Tool::Search),
        Self::Recall(recall::Tool::Open),
        Self::Recall(recall::Tool::Outline),
        Self::Status,
        Self::Compress,
        Self::Undo,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Recall(tool) => tool.name(),
            Self::Status => "status",
            Self::Compress => "compress",
            Self::Undo => "undo",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Recall(recall::Tool::Search) => "Search earlier messages",
            Self::Recall(recall::Tool::Open) => "Open an earlier block",
            Self::Recall(recall::Tool::Outline) => "Outline of the session",
            Self::Status => "Sessions and their size",
            Self::Compress => "Compact a session",
            Self::Undo => "Take a compaction back",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Recall(tool) => tool.description(),
            Self::Status => {
                "List the sessions that longhaul keeps, newest first, or one of them: messages, tokens in view and in all, \
                 compactions, money."
            }
            Self::Compress => {
                "Compact a session of longhaul now; it takes effect with the session's next request through the gateway. What \
                 goes stays recallable, and undo takes it back. Use it when a person asks for it."
            }
            Self::Undo => {
                "Take the newest compaction of a session back, or with redo: true put it in force again. Use it when a person \
                 asks for it."
            }
        }
    }

    fn effect(self) -> Effect {
        match self {
            Self::Recall(_) | Self::Status => Effect::Looks,
            Self::Compress | Self::Undo => Effect::Decides,
        }
    }

    /// The arguments beside `session`, which all tools take.
    fn own_schema(self) -> Value {
        let properties = match self {
            Self::Recall(tool) => return tool.schema(),
            Self::Status => json!({}),
            Self::Compress => json!({
                "focus": {"type": "string", "description": "a topic to keep before all else"},
                "preview": {"type": "boolean", "description": "only say what would become of it"}
            }),
            Self::Undo => json!({"redo": {"type": "boolean"}}),
        };
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }

    fn schema(self) -> Map<String, Value> {
        let mut schema = self.own_schema();
        schema["properties"]["session"] =
            json!({"type": "string", "description": "id of a session, or its beginning; see status"});
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// As it is listed.
    pub(super) fn definition(self) -> Definition {
        let looks = self.effect() == Effect::Looks;
        let annotations = ToolAnnotations::with_title(self.title())
            .read_only(looks)
            .destructive(false)
            .idempotent(looks)
            .open_world(false);
        Definition::new(self.name(), self.description(), self.schema()).with_annotations(annotations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name_and_takes_a_session() {
        for tool in Tool::ALL {
            assert_eq!(Tool::named(tool.name()), Some(tool));
            let definition = serde_json::to_value(tool.definition()).unwrap();
            let schema = &definition["inputSchema"];
            assert_eq!(schema["properties"]["session"]["type"], "string");
            assert_eq!(schema["additionalProperties"], false);
            assert_eq!(definition["annotations"]["destructiveHint"], false);
            assert!(definition["annotations"]["readOnlyHint"].is_boolean());
        }
    }
}
