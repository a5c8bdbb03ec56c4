//! Recomputes what published figures imply of each other.

use super::{Published, Relation, Row};

/// How one relation came out in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct RelationCheck {
    /// The relation in words.
    pub says: String,
    /// The row or rows.
    pub place: String,
    /// What is printed.
    pub published: f64,
    /// What follows from the other figures.
    pub computed: f64,
    /// Whether it holds.
    pub holds: bool,
}

/// The value that a relation's left side has in a row; `None` when the row lacks one of its figures.
fn left(relation: &Relation, row: &Row) -> Option<f64> {
    let figure = |name: &String| row.figures.get(name).copied();
    let product: Option<f64> = relation.product.iter().map(figure).product();
    let sum: Option<f64> = relation.sum.iter().map(figure).sum();
    let over: Option<f64> = relation.over.iter().map(figure).product();
    let above = if relation.sum.is_empty() { product? } else { product? * sum? };
    Some(relation.scale * above / over?)
}

fn outcome(relation: &Relation, place: String, published: f64, computed: f64) -> RelationCheck {
    let apart = (computed - published).abs() > relation.tolerance * published.abs();
    RelationCheck {
        says: relation.says.clone(),
        place,
        published,
        computed,
        holds: apart == relation.differs,
    }
}

fn between(relation: &Relation, rows: &[Row]) -> Option<RelationCheck> {
    let [above, below] = relation.between.as_ref()?;
    let figure = |label: &String| {
        rows.iter().find(|r| r.label == *label)?.figures.get(relation.ratio.as_ref()?).copied()
    };
    let computed = figure(above)? / figure(below)?;
    Some(outcome(relation, format!("{above} / {below}"), relation.published?, computed))
}

/// Every relation of a document in every row that it is about.
pub fn check(document: &Published) -> Vec<RelationCheck> {
    let mut out = Vec::new();
    for relation in &document.relations {
        out.extend(between(relation, &document.rows));
        if relation.between.is_some() {
            continue;
        }
        let chosen = |row: &&Row| relation.chosen.iter().all(|(name, value)| row.field(name) == value);
        for row in document.rows.iter().filter(chosen) {
            let printed = relation.equals.as_ref().and_then(|name| row.figures.get(name).copied());
            let printed = printed.or(relation.equals_number);
            if let (Some(printed), Some(computed)) = (printed, left(relation, row)) {
                out.push(outcome(relation, row.label.clone(), printed, computed));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{all, named};
    use super::*;

    fn broken(name: &str) -> Vec<RelationCheck> {
        check(&named(name).unwrap()).into_iter().filter(|o| !o.holds).collect()
    }

    /// A relation that is about no row would always hold.
    #[test]
    fn every_relation_is_about_something() {
        for document in all().unwrap() {
            for relation in &document.relations {
                let mut only = document.clone();
                only.relations = vec![relation.clone()];
                assert!(!check(&only).is_empty(), "{}: {}", document.name, relation.says);
            }
        }
    }

    #[test]
    fn the_tables_of_r2_bench_agree_with_themselves_but_for_littles_law_over_all_phases() {
        let broken = broken("r2-bench");
        assert!(
            broken.iter().all(|o| o.says.starts_with("Little") && o.place.ends_with("ALL")),
            "{broken:#?}"
        );
        assert!(broken.len() >= 6, "{}", broken.len());
    }

    #[test]
    fn the_row_of_r2_reads_is_not_of_reads() {
        let broken = broken("tigris-ycsb");
        let reads =
            broken.iter().find(|o| o.says.starts_with("operations") && o.place == "R2 run get").unwrap();
        assert!((reads.computed - 200_446.0).abs() < 1000.0, "{reads:?}");
        assert!(!broken.iter().any(|o| o.place.contains("draft")));
    }

    #[test]
    fn percentiles_that_are_sizes_over_medians_are_told() {
        let computed = broken("large-uploads").iter().filter(|o| o.says.contains("p99")).count();
        assert_eq!(computed, 9, "all nine are within 4%");
    }
}
