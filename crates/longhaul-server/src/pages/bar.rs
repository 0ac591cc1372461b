//! One bar of several parts: widths are attributes of SVG, since a strict policy allows no `style`.

use maud::{Markup, html};

/// One part of a bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Which of the sheet's colours it has, from 0 to 7.
    pub color: usize,
    /// How much it is, in the unit of the whole.
    pub amount: f64,
}

/// A bar whose full width is `whole`; `says` is what somebody hears who does not see it.
#[must_use]
pub fn bar(parts: &[Part], whole: f64, says: &str) -> Markup {
    let whole = if whole > 0.0 { whole } else { 1.0 };
    let mut from = 0.0;
    let placed = parts.iter().map(|part| {
        let width = (part.amount.max(0.0) / whole * 1000.0).min(1000.0 - from);
        let at = from;
        from += width;
        (part.color, at, width)
    });
    html! {
        svg.bar viewBox="0 0 1000 12" preserveAspectRatio="none" role="img" aria-label=(says) {
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
    fn parts_stand_side_by_side_and_never_run_over() {
        let parts = [Part { color: 1, amount: 50.0 }, Part { color: 2, amount: 80.0 }];
        let drawn = bar(&parts, 100.0, "a & b").into_string();
        assert!(drawn.contains("aria-label=\"a &amp; b\""), "{drawn}");
        assert!(drawn.contains("x=\"0.0\" y=\"0\" width=\"500.0\""), "{drawn}");
        assert!(drawn.contains("x=\"500.0\" y=\"0\" width=\"500.0\""), "{drawn}");
        assert!(!bar(&parts, 0.0, "").into_string().contains("NaN"));
    }
}
