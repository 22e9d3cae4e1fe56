//! The search for the highest rate that a server bears under conditions.
