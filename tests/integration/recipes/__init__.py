"""What a reader of CONTRIBUTING.md writes for each of its recipes: new files, and what is replaced in others."""
