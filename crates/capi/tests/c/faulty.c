/* Does what the tools that watch programs must find: they are tried on this before they are believed of others. */
#include <stdlib.h>

/* Volatile, or the compiler leaves it all out. */
static volatile char *volatile kept;

int main(int argc, char **argv)
{
    (void)argv;
    kept = (volatile char *)malloc(8);
    if (argc > 1) {
        /* One byte too far. */
        kept[argc + 6] = 1;
        free((void *)kept);
        return 0;
    }
    /* Never freed, and no pointer to it is left. */
    kept = NULL;
    return 0;
}
