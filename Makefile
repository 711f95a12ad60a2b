# The files of a release: archives, Debian packages, lists of components and SHA256SUMS, in dist/.
# make dist RELEASE=1.4.0 names a release; without it the files are named after the commit.
RELEASE ?=

.PHONY: dist reproduce image

dist:
	rm -rf dist
	go -C internal/tools run ./dist -version "$(RELEASE)" ../..

# Makes the files twice, from two checkouts of this commit in folders of their own, and compares all.
reproduce:
	work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && \
	for checkout in one another; do \
		git clone -q . "$$work/$$checkout" && \
		go -C internal/tools run ./dist -version "$(RELEASE)" "$$work/$$checkout" || exit 1; \
	done && \
	diff -r "$$work/one/dist" "$$work/another/dist" && \
	cat "$$work/one/dist/SHA256SUMS" && echo "both are the same"

# A container image of the Linux program in dist/.
image:
	docker build -t attestd -f packaging/docker/Dockerfile dist/bin
