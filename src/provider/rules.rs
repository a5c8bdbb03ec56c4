//! Whether a size, a part size or a rate of writes keeps to a provider's rules; every refusal says the rule and the way out.

use super::Profile;
use crate::units::format_size;

/// Holds objects of `size` bytes, put in parts of `part_size` (0: in one request), against the provider's limits.
///
/// # Errors
/// The rule that is broken, in a sentence, with the way out.
pub fn fits(profile: &Profile, size: u64, part_size: u64) -> Result<(), String> {
    let (parts, limits, title) = (profile.parts, profile.limits, &profile.title);
    if size > limits.object {
        let (size, most) = (format_size(size), format_size(limits.object));
        return Err(format!("{size} is more than an object of {title} may have, {most}"));
    }
    if part_size == 0 || size <= part_size {
        let most = limits.put;
        return if size <= most {
            Ok(())
        } else {
            Err(format!(
                "{} is more than one request to {title} may put, {}; set part_size",
                format_size(size),
                format_size(most)
            ))
        };
    }
    if part_size < parts.least {
        return Err(format!(
            "parts of {} are refused by {title}: every part but the last must have at least {}",
            format_size(part_size),
            format_size(parts.least)
        ));
    }
    if part_size > parts.most {
        let (part_size, most) = (format_size(part_size), format_size(parts.most));
        return Err(format!("parts of {part_size} are refused by {title}, which takes at most {most}"));
    }
    if size.div_ceil(part_size) > parts.count {
        let cap = part_size.saturating_mul(parts.count);
        let least = size.div_ceil(parts.count).div_ceil(1 << 20) << 20;
        return Err(format!(
            "{title} takes at most {} parts, so parts of {} end at {:.1} GiB; {} need parts of at least {}",
            parts.count,
            format_size(part_size),
            cap as f64 / f64::from(1u32 << 30),
            format_size(size),
            format_size(least)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::load;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn part_rules_are_explained() {
        let s3 = load("aws-s3").unwrap();
        assert_eq!(fits(&s3, 10 * GIB, 8 * MIB), Ok(()));
        assert_eq!(fits(&s3, GIB, 0), Ok(()));
        assert_eq!(fits(&s3, MIB, 5 * MIB), Ok(()), "one part, put by one request");
        for (size, part, said) in [
            (500 * MIB, MIB, "at least 5 MiB"),
            (60 * GIB, 5 * MIB, "end at 48.8 GiB; 60 GiB need parts of at least 7 MiB"),
            (6 * GIB, 0, "set part_size"),
            (20 * GIB, 6 * GIB, "at most 5 GiB"),
            (60 << 40, 5 * GIB, "50000 GiB"),
        ] {
            let message = fits(&s3, size, part).unwrap_err();
            assert!(message.contains(said), "{message}");
        }
        let r2 = load("cloudflare-r2").unwrap();
        assert!(fits(&r2, 5 * GIB, 0).unwrap_err().contains("Cloudflare R2"));
    }
}
