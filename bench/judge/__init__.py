"""Lines into findings: what is expected against what was asked, predicted and measured."""
