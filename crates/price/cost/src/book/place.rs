//! Parts of the world, and the regions of offers in them.

use super::Prices;

/// Part of the world in which stores are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Place {
    /// Regions in North America
    Us,
    /// Regions in Europe
    Eu,
    /// Regions in Asia and the Pacific, without the Middle East
    Asia,
}

impl Place {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Place::Us => "us",
            Place::Eu => "eu",
            Place::Asia => "asia",
        }
    }

    /// Beginnings and ends of the names of regions there: AWS and others, Google, Azure.
    fn words(self) -> &'static [&'static str] {
        match self {
            Place::Us => &["us", "northamerica", "nam4", "ca-", "nyc", "sfo", "tor1", "atl1"],
            Place::Eu => &["eu", "germany", "uk-", "nl-", "ams", "fra", "lon"],
            Place::Asia => &["ap-", "asia", "in-", "sgp", "blr"],
        }
    }

    fn has(self, region: &str) -> bool {
        let ends: &[&str] = match self {
            Place::Us => &["us", "us2"],
            Place::Eu => &["europe"],
            Place::Asia => &["asia"],
        };
        self.words().iter().any(|word| region.starts_with(word))
            || ends.iter().any(|end| region.ends_with(end))
    }
}

impl Prices {
    /// Returns the first region of an offer in a part of the world, or `auto` if it is sold as one for the whole world.
    /// `None` if there is none.
    pub fn region_in(&self, name: &str, place: Place) -> Option<&str> {
        let offer = self.offer(name)?;
        let everywhere = offer.regions.first().filter(|region| offer.every_region && *region == "auto");
        offer.regions.iter().find(|region| place.has(region)).or(everywhere).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_regions_of_the_large_providers() {
        let prices = Prices::built_in().unwrap();
        let of = |name: &str| [Place::Us, Place::Eu, Place::Asia].map(|place| prices.region_in(name, place));
        assert_eq!(of("aws-s3"), [Some("us-east-1"), Some("eu-west-1"), Some("ap-southeast-1")]);
        assert_eq!(of("azure-blob-hot"), [Some("eastus"), Some("westeurope"), Some("southeastasia")]);
        assert_eq!(of("google-cloud-storage")[1], Some("europe-west1"));
        assert_eq!(of("google-cloud-storage-multi-region"), [Some("us"), Some("eu"), Some("asia")]);
        assert_eq!(of("cloudflare-r2"), [Some("auto"); 3]);
        assert_eq!(of("wasabi"), [Some("us-east-1"), None, None]);
        assert_eq!(of("backblaze-b2"), [Some("us-west-004"), Some("eu-central-003"), None]);
    }
}
