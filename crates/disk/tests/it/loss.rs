//! What a power loss may take, case by case.
