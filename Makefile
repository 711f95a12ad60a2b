# The files of a release: archives, Debian packages, lists of components and SHA256SUMS, in dist/.
# make dist RELEASE=1.4.0 names a release; without it the files are named after the commit.
RELEASE ?=

.PHONY: check static night dist reproduce image

# What a change must pass before it is sent, in three minutes.
check: static
	CGO_ENABLED=0 go test ./...

# Formats, mistakes that compile, and comments and prose that are too wide, in every module.
MODULES = . internal/tools internal/tools/python examples/mcp-server-go
static:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change: $$unformatted"; exit 1; fi
	@staticcheck=$$(go tool -n staticcheck) && for module in $(MODULES); do \
		(cd $$module && CGO_ENABLED=0 go vet ./... && CGO_ENABLED=0 "$$staticcheck" ./...) || exit 1; \
	done
	go -C internal/tools run ./lint ../..

# The rest, in its whole form: hours. .ci/run has what main must pass.
night:
	go test ./... -night -timeout 12h
	go test ./store ./service ./server ./chain/... ./agent/... ./crypto/... ./sdk/... -race -timeout 2h
	ATTESTD_TEST_DB=postgres go test ./store ./service ./server ./test -p 1 -long -timeout 6h
	go -C internal/tools test ./... -long -timeout 2h
	go -C internal/tools run ./bench

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
