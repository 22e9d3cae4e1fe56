//! How an outcome is shown: one file for each form.
