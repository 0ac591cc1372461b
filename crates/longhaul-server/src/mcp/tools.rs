//! The table of tools: name, arguments, description and effect of each.

use rmcp::model::{Tool as Definition, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::recall;

/// A tool that a client can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum McpTool {
    /// A recall tool, which the gateway offers to models too.
    Recall(recall::RecallTool),
    Status,
    Compress,
    Undo,
}

/// The effect of a tool on a session, for its annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It changes nothing.
    ReadOnly,
    /// It changes which compaction is active. It deletes nothing and can be undone.
    ChangesView,
}

impl McpTool {
    pub(super) const ALL: [Self; 6] = [
        Self::Recall(recall::RecallTool::Search),
        Self::Recall(recall::RecallTool::Open),
        Self::Recall(recall::RecallTool::Outline),
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

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Recall(recall::RecallTool::Search) => "Search earlier messages",
            Self::Recall(recall::RecallTool::Open) => "Open an earlier block",
            Self::Recall(recall::RecallTool::Outline) => "Outline of the session",
            Self::Status => "Sessions and their size",
            Self::Compress => "Compact a session",
            Self::Undo => "Undo a compaction",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Recall(tool) => tool.description(),
            Self::Status => {
                "List the stored sessions, newest first, or describe one: messages, tokens sent and in all, \
                 compactions, cost."
            }
            Self::Compress => {
                "Compact a session now; it applies to the session's next request through the gateway. Removed \
                 text stays recallable, and undo reverts it. Use it when a person asks for it."
            }
            Self::Undo => {
                "Undo the newest compaction of a session, or with redo: true activate it again. Use it when a \
                 person asks for it."
            }
        }
    }

    fn effect(self) -> Effect {
        match self {
            Self::Recall(_) | Self::Status => Effect::ReadOnly,
            Self::Compress | Self::Undo => Effect::ChangesView,
        }
    }

    /// Returns the schema of the arguments without `session`, which all tools accept.
    fn own_schema(self) -> Value {
        let properties = match self {
            Self::Recall(tool) => return tool.schema(),
            Self::Status => json!({}),
            Self::Compress => json!({
                "focus": {"type": "string", "description": "topic to keep"},
                "preview": {"type": "boolean", "description": "only preview the result"}
            }),
            Self::Undo => json!({"redo": {"type": "boolean"}}),
        };
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }

    fn schema(self) -> Map<String, Value> {
        let mut schema = self.own_schema();
        schema["properties"]["session"] =
            json!({"type": "string", "description": "ID of a session, or its beginning; see status"});
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// Returns the definition that `tools/list` sends.
    pub(super) fn definition(self) -> Definition {
        let looks = self.effect() == Effect::ReadOnly;
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
        for tool in McpTool::ALL {
            assert_eq!(McpTool::from_name(tool.name()), Some(tool));
            let definition = serde_json::to_value(tool.definition()).unwrap();
            let schema = &definition["inputSchema"];
            assert_eq!(schema["properties"]["session"]["type"], "string");
            assert_eq!(schema["additionalProperties"], false);
            assert_eq!(definition["annotations"]["destructiveHint"], false);
            assert!(definition["annotations"]["readOnlyHint"].is_boolean());
        }
    }
}
