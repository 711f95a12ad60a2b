// How many times less a test tries without the -long of go test, which TestConsoleModules passes on.
export const rarely = process.env.ATTESTD_TEST_LONG === '1' ? 1 : 5;
