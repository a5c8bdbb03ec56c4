//! The credentials of a tier in the settings.

use plimsoll_bodies::tier::TierTable;

/// Returns an error if the places of a tier's credentials contradict each other.
pub fn check_credentials(tier: &TierTable) -> Result<(), &'static str> {
    if tier.access_key_env.is_some() != tier.secret_key_env.is_some() {
        return Err("access_key_env and secret_key_env belong together");
    }
    if tier.access_key_env.is_some() && tier.credentials_file.is_some() {
        return Err("use access_key_env or credentials_file, not both");
    }
    if tier.profile.is_some() && tier.credentials_file.is_none() {
        return Err("profile needs credentials_file");
    }
    Ok(())
}
