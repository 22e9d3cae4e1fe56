//! Rules by glob.
