//! Checks of object and part sizes against the limits of a provider. Each error states the rule and how to comply.

use super::Profile;
use crate::units::format_size;

/// Checks that the provider accepts objects of `size` bytes in parts of `part_size` bytes (0: in one request).
///
/// # Errors
/// A message that states the broken rule and how to comply with it.
pub fn fits(profile: &Profile, size: u64, part_size: u64) -> Result<(), String> {
    let (parts, limits, title) = (profile.parts, profile.limits, &profile.title);
    if size > limits.object {
        let (size, most) = (format_size(size), format_size(limits.object));
        return Err(format!(
            "an object of {size} is too large: {title} allows at most {most}; lower objects.size"
        ));
    }
    if part_size == 0 || size <= part_size {
        let most = limits.put;
        return if size <= most {
            Ok(())
        } else {
            Err(format!(
                "an object of {} is too large for one request: {title} allows at most {}; set part_size",
                format_size(size),
                format_size(most)
            ))
        };
    }
    if part_size < parts.least {
        return Err(format!(
            "parts of {} are too small: {title} requires at least {} for every part but the last",
            format_size(part_size),
            format_size(parts.least)
        ));
    }
    if part_size > parts.most {
        let (part_size, most) = (format_size(part_size), format_size(parts.most));
        return Err(format!("parts of {part_size} are too large: {title} allows at most {most}"));
    }
    if size.div_ceil(part_size) > parts.count {
        let cap = part_size.saturating_mul(parts.count);
        let least = size.div_ceil(parts.count).div_ceil(1 << 20) << 20;
        return Err(format!(
            "an object of {} needs too many parts: {title} allows {} parts, \
             and parts of {} reach only {:.1} GiB; \
             set part_size to at least {}",
            format_size(size),
            parts.count,
            format_size(part_size),
            cap as f64 / f64::from(1u32 << 30),
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
    fn broken_part_rules_are_explained() {
        let s3 = load("aws-s3").unwrap();
        assert_eq!(fits(&s3, 10 * GIB, 8 * MIB), Ok(()));
        assert_eq!(fits(&s3, GIB, 0), Ok(()));
        assert_eq!(fits(&s3, MIB, 5 * MIB), Ok(()), "a single part is uploaded by one request");
        for (size, part, expected) in [
            (500 * MIB, MIB, "at least 5 MiB"),
            (60 * GIB, 5 * MIB, "reach only 48.8 GiB; set part_size to at least 7 MiB"),
            (6 * GIB, 0, "set part_size"),
            (20 * GIB, 6 * GIB, "at most 5 GiB"),
            (60 << 40, 5 * GIB, "50000 GiB"),
        ] {
            let message = fits(&s3, size, part).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        let r2 = load("cloudflare-r2").unwrap();
        assert!(fits(&r2, 5 * GIB, 0).unwrap_err().contains("Cloudflare R2"));
    }
}
