//! Checks the relations between the figures of a published document.

use super::{Published, PublishedRow, Relation};

/// Result of checking one relation in one row or between two rows.
#[derive(Debug, Clone, PartialEq)]
pub struct RelationCheck {
    /// Description of the relation.
    pub says: String,
    /// Label of the row or rows.
    pub place: String,
    /// Value that the document states.
    pub published: f64,
    /// Value computed from the other figures.
    pub computed: f64,
    /// True if the relation holds within its tolerance.
    pub holds: bool,
}

/// Returns the value of the left side of a relation in a row, or `None` if the row lacks one of its figures.
fn left_side(relation: &Relation, row: &PublishedRow) -> Option<f64> {
    let figure = |name: &String| row.figures.get(name).copied();
    let product: Option<f64> = relation.product.iter().map(figure).product();
    let sum: Option<f64> = relation.sum.iter().map(figure).sum();
    let over: Option<f64> = relation.over.iter().map(figure).product();
    let above = if relation.sum.is_empty() { product? } else { product? * sum? };
    Some(relation.scale * above / over?)
}

fn compare(relation: &Relation, place: String, published: f64, computed: f64) -> RelationCheck {
    let apart = (computed - published).abs() > relation.tolerance * published.abs();
    RelationCheck {
        says: relation.says.clone(),
        place,
        published,
        computed,
        holds: apart == relation.differs,
    }
}

fn between(relation: &Relation, rows: &[PublishedRow]) -> Option<RelationCheck> {
    let [above, below] = relation.between.as_ref()?;
    let figure = |label: &String| {
        rows.iter().find(|r| r.label == *label)?.figures.get(relation.ratio.as_ref()?).copied()
    };
    let computed = figure(above)? / figure(below)?;
    Some(compare(relation, format!("{above} / {below}"), relation.published?, computed))
}

/// Checks every relation of a document in every row to which it applies.
pub fn check(document: &Published) -> Vec<RelationCheck> {
    let mut out = Vec::new();
    for relation in &document.relations {
        out.extend(between(relation, &document.rows));
        if relation.between.is_some() {
            continue;
        }
        let chosen =
            |row: &&PublishedRow| relation.chosen.iter().all(|(name, value)| row.field(name) == value);
        for row in document.rows.iter().filter(chosen) {
            let printed = relation.equals.as_ref().and_then(|name| row.figures.get(name).copied());
            let printed = printed.or(relation.equals_number);
            if let (Some(printed), Some(computed)) = (printed, left_side(relation, row)) {
                out.push(compare(relation, row.label.clone(), printed, computed));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{all, named};
    use super::*;

    fn failed(name: &str) -> Vec<RelationCheck> {
        check(&named(name).unwrap()).into_iter().filter(|o| !o.holds).collect()
    }

    /// A relation that applies to no row would never fail.
    #[test]
    fn every_relation_applies_to_a_row() {
        for document in all().unwrap() {
            for relation in &document.relations {
                let mut only = document.clone();
                only.relations = vec![relation.clone()];
                assert!(!check(&only).is_empty(), "{}: {}", document.name, relation.says);
            }
        }
    }

    #[test]
    fn r2_bench_tables_are_consistent_except_for_littles_law_over_all_phases() {
        let failed = failed("r2-bench");
        assert!(
            failed.iter().all(|o| o.says.starts_with("Little") && o.place.ends_with("ALL")),
            "{failed:#?}"
        );
        assert!(failed.len() >= 6, "{}", failed.len());
    }

    #[test]
    fn the_published_rate_of_r2_reads_is_inconsistent() {
        let failed = failed("tigris-ycsb");
        let reads =
            failed.iter().find(|o| o.says.starts_with("operations") && o.place == "R2 run get").unwrap();
        assert!((reads.computed - 200_446.0).abs() < 1000.0, "{reads:?}");
        assert!(!failed.iter().any(|o| o.place.contains("draft")));
    }

    #[test]
    fn percentiles_computed_from_median_throughput_are_detected() {
        let computed = failed("large-uploads").iter().filter(|o| o.says.contains("p99")).count();
        assert_eq!(computed, 9, "all nine are within 4%");
    }
}
