"""Which Debian packages hold the English-German text."""

MANUAL_PAGES = """
manpages-de manpages-de-dev manpages manpages-dev systemd systemd-container systemd-homed
systemd-resolved systemd-repart systemd-cryptsetup systemd-boot systemd-journal-remote
systemd-coredump systemd-userdbd udev libsane-common sane-utils coreutils devscripts dpkg-dev dpkg
apt debhelper po4a procps mutt mtools e2fsprogs netpbm gettext iptables nfs-common xz-utils nano
less tar grub-common kbd adduser vorbis-tools findutils man-db wodim dosfstools sysstat grep gzip
psmisc bzip2 cron diffutils passwd login cpio util-linux util-linux-locales bsdutils bsdextrautils
mount fdisk
"""
CATALOGS = """
libreoffice-l10n-de gcc-14-locales git gnucash-common gramps wordpress-l10n libvirt-l10n vlc-l10n
evolution-common darktable util-linux-locales phpmyadmin coreutils subversion libsvn1
claws-mail-i18n k3b-i18n cinnamon-l10n libgtk-3-common audacity-data gnupg-l10n kdevelop-l10n
pidgin-data zypper-common mailutils-common e2fsprogs-l10n aptitude-common
evolution-data-server-common libglib2.0-data gettext libc-l10n binutils-common bash sudo mutt
postgresql-client-17 gnome-control-center-data wget tar texinfo gawk nano libparted-i18n
nautilus-data synaptic
"""
LIBREOFFICE_HELP = "libreoffice-help-de libreoffice-help-en-us"
MOZILLA = "thunderbird-l10n-de thunderbird-l10n-en-gb firefox-esr-l10n-de firefox-esr-l10n-en-gb"
MANUALS = """
debian-reference-en debian-reference-de debian-faq debian-faq-de developers-reference
developers-reference-de krusader konsole dolphin gwenview akregator kleopatra korganizer
kdepim-runtime ktorrent-data umbrello
"""
TIERS = {
    "mini": (MANUAL_PAGES, MOZILLA, LIBREOFFICE_HELP),
    "core": (MANUAL_PAGES, CATALOGS, LIBREOFFICE_HELP, MOZILLA, MANUALS),
}


def package_names(tier: str) -> list[str]:
    """Packages of a tier: `mini` is 61 MB and 165 thousand pairs, `core` 203 MB and 267."""
    return list(dict.fromkeys(" ".join(TIERS[tier]).split()))
