//! A bar of several parts. Widths are SVG attributes, because a strict content security policy allows no
//! `style` attribute.

use maud::{Markup, html};

/// One part of a bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BarPart {
    /// The colour: an index into the colours of the style sheet, from 0 to 7.
    pub color: usize,
    /// The size of the part, in the unit of the whole bar.
    pub amount: f64,
}

/// Draws a bar whose full width is `whole`. Parts beyond it are cut off. `says` describes the bar to readers
/// who cannot see it.
#[must_use]
pub fn bar(parts: &[BarPart], total: f64, label: &str) -> Markup {
    let total = if total > 0.0 { total } else { 1.0 };
    let mut from = 0.0;
    let placed = parts.iter().map(|part| {
        let width = (part.amount.max(0.0) / total * 1000.0).min(1000.0 - from);
        let at = from;
        from += width;
        (part.color, at, width)
    });
    html! {
        svg.bar viewBox="0 0 1000 12" preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (color, at, width) in placed {
                rect class={ "fill c" (color) } x=(format!("{at:.1}")) y="0" width=(format!("{width:.1}")) height="12" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_side_by_side_and_never_exceed_the_bar() {
        let parts = [BarPart { color: 1, amount: 50.0 }, BarPart { color: 2, amount: 80.0 }];
        let markup = bar(&parts, 100.0, "a & b").into_string();
        assert!(markup.contains("aria-label=\"a &amp; b\""), "{markup}");
        assert!(markup.contains("x=\"0.0\" y=\"0\" width=\"500.0\""), "{markup}");
        assert!(markup.contains("x=\"500.0\" y=\"0\" width=\"500.0\""), "{markup}");
        assert!(!bar(&parts, 0.0, "").into_string().contains("NaN"));
    }
}
