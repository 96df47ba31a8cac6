"""OCI images as values: bytes, digests, trees and layers. Knows no module, lock or vLLM."""
